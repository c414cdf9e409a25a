"""What held mail counts as, by the source's option."""

from typing import Any

import pytest

from mailonce.core.arrivals.source import Source
from mailonce.core.events.event import EventType, Reject
from mailonce.core.reading.held_mail import Hold, fault_of, hold_of

HELD: Hold = (EventType.REJECTED, Reject.HELD)


def source(options: dict[str, Any]) -> Source:
    return Source(id="s", workspace="w", name="n", provider="p", account="a", options=options)


@pytest.mark.parametrize(
    ("options", "counts_as"),
    [
        ({}, HELD),
        ({"held": "held"}, HELD),
        ({"held": "rejected"}, (EventType.REJECTED, Reject.OTHER)),
        ({"held": "deferred"}, (EventType.DEFERRED, None)),
        ({"other": "deferred"}, HELD),
    ],
)
def test_a_hold_counts_as_the_source_says(options: dict[str, Any], counts_as: Hold) -> None:
    assert hold_of(source(options), "held") == counts_as
    assert fault_of(source(options), "held") is None


@pytest.mark.parametrize("word", ["sent", "", None, 5, ["held"]])
def test_another_word_is_a_fault_and_counts_as_held_until_it_is_corrected(word: Any) -> None:
    wrong = source({"held": word})

    assert fault_of(wrong, "held") == "option 'held' must be one of held, rejected, deferred"
    assert hold_of(wrong, "held") == HELD
