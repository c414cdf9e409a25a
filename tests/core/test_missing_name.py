"""A name that nothing has is refused with those that there are."""

from mailonce.core.missing_name import NAMES_MAX, missing_name


def test_known_names_are_listed_in_order_and_within_bounds() -> None:
    names = [f"shop{number:02}" for number in range(NAMES_MAX + 5, 0, -1)]

    few = str(missing_name("source", "mian", ["other", "main"]))
    many = str(missing_name("route", "x" * 200, names))
    none = str(missing_name("sender", "out"))

    assert few == "there is no source 'mian'; see GET /v1/sources, which has main, other"
    assert many.endswith("shop09, shop10, …")
    assert "x" * 81 not in many
    assert none == "there is no sender 'out'; see GET /v1/senders"
