"""Texts that every database holds."""

from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.text import storable


@given(
    text=st.text(st.characters() | st.characters(categories=["Cs"])), chars_max=st.integers(0, 9)
)
def test_a_text_becomes_storable_and_what_was_so_is_left_alone(text: str, chars_max: int) -> None:
    made = storable(text, chars_max=chars_max)

    made.encode()
    assert "\0" not in made
    assert len(made) == min(len(text), chars_max)
    assert storable(made, chars_max=chars_max) == made
    if not any(one == "\0" or "\ud800" <= one <= "\udfff" for one in text):
        assert made == text[:chars_max]
