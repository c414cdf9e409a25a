"""Held mail: what it counts as when a provider holds a message back, by the source's option."""

from typing import Any

from mailonce.core.arrivals.source import Source
from mailonce.core.events.event import EventType, Reject
from mailonce.core.reading import values

Hold = tuple[EventType, Reject | None]

# Held mail may still be sent, so by default a later delivery outranks the hold. Who never releases
# any takes it for rejected; who always does, for a delay.
HOLDS: dict[str, Hold] = {
    "held": (EventType.REJECTED, Reject.HELD),
    "rejected": (EventType.REJECTED, Reject.OTHER),
    "deferred": (EventType.DEFERRED, None),
}


WHAT_IT_COUNTS_AS = f"what held mail counts as: one of {', '.join(f'`{one}`' for one in HOLDS)}"


def hold_of(source: Source, option: str) -> Hold:
    """Say what a hold counts as at this source; `option` is the name of its setting."""
    return HOLDS.get(values.word_of(_given(source, option)), HOLDS["held"])


def fault_of(source: Source, option: str) -> str | None:
    """Say in one sentence what is wrong with the option, or None."""
    if values.word_of(_given(source, option)) in HOLDS:
        return None
    return f"option {option!r} must be one of {', '.join(HOLDS)}"


def _given(source: Source, option: str) -> Any:
    return source.options.get(option, "held")
