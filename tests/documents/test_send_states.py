"""The drawing of a send's states shows what the table of moves allows."""

from pathlib import Path

from mailonce.core.sends.send_lifecycle import MOVES, SendAct

DOCS = Path(__file__).parents[2] / "docs" / "sends.md"


def test_each_state_that_can_be_sent_again_is_drawn_so() -> None:
    drawing = DOCS.read_text().partition("## States")[2].split("```")[1]

    lines = [one for one in drawing.splitlines() if "resend" in one]
    states = {state.word for state, act in MOVES if act is SendAct.RESEND}
    assert len(lines) == 1
    assert {word for word in states if word in lines[0].partition("resend")[0]} == states
