"""What is said of a route that was removed can be pasted, and works."""

import shlex

from mailonce.core.deliveries.removed_route import put_back_words, removed_route_words


def test_a_removed_route_is_put_back_under_its_name() -> None:
    assert removed_route_words("crm") == f"its route crm was removed; {put_back_words('crm')}"
    assert put_back_words("crm") == (
        "put the route back with `mailonce route add crm …` (`--secret` keeps its secret; else "
        "give its endpoint the new one), then `mailonce dead retry --route crm`"
    )
    assert put_back_words("crm", delivery="dlv_1").endswith("then `mailonce redeliver dlv_1`")


def test_a_name_that_is_taken_or_not_known_is_not_put_back() -> None:
    for words in (removed_route_words(None), removed_route_words("crm", is_taken=True)):
        assert "route add" not in words
        assert "`mailonce reprocess EVENT" in words


def test_a_name_can_be_pasted_into_a_shell() -> None:
    name = "John's; crm"

    command = put_back_words(name).split("`")[1].removesuffix(" …")

    assert shlex.split(command) == ["mailonce", "route", "add", name]
