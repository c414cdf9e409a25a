"""Of the states that are named, the one that a mail speaks of is found."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.extraction.extraction import ExtractionOutcome
from mailonce.core.extraction.mail_texts import MailTexts
from mailonce.core.extraction.named_states import extract_state
from tests.core.extraction.vectors import load, result_of

STATES = ["approved", "rejected", "payment failed"]


def test_the_states_of_mails(subtests: pytest.Subtests) -> None:
    for vector in load("states", "states"):
        with subtests.test(vector["name"]):
            mail = MailTexts(
                subject=vector.get("subject", ""),
                text=vector.get("text", ""),
                html=vector.get("html", ""),
            )

            assert result_of(extract_state(mail, vector.get("states", STATES))) == vector["state"]


def test_states_that_cannot_be_told_apart_are_refused(subtests: pytest.Subtests) -> None:
    for states in ([], ["a", "A"], [""], [" "], ["x" * 41], [str(n) for n in range(21)]):
        with subtests.test(str(states)[:20]), pytest.raises(ValueError, match="state"):
            extract_state(MailTexts(), states)


@given(st.text(max_size=60), st.lists(st.sampled_from([*STATES, "not ", " ", "or "]), max_size=5))
def test_the_value_is_always_one_that_was_named(text: str, words: list[str]) -> None:
    extraction = extract_state(MailTexts(subject=text, text=" ".join(words)), STATES)

    assert all(candidate.value in STATES for candidate in extraction.candidates)
    assert (extraction.winner is None) == (extraction.outcome is not ExtractionOutcome.FOUND)
