"""Both spellings of a message id."""

from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.query import other_spelling


def test_brackets_are_put_on_and_taken_off() -> None:
    assert other_spelling("m@x") == "<m@x>"
    assert other_spelling("<m@x>") == "m@x"


@given(bare=st.text(st.characters(exclude_characters="<>"), min_size=1))
def test_the_other_spelling_of_the_other_is_the_first(bare: str) -> None:
    for written in (bare, f"<{bare}>"):
        assert other_spelling(other_spelling(written)) == written
        assert other_spelling(written) != written
