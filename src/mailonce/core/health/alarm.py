"""Alarms: a source that falls silent, or whose signatures suddenly fail.

A rotated secret must not become a silent blackout: some providers forget what was refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

MINUTE_S = 60
# A rhythm is learned from this many busy minutes at least, and from no less than a day.
BUSY_MINUTES_MIN = 20
HISTORY_MINUTES_MIN = 24 * 60
# A silence is strange when it is three times the longest one that was normal.
PATIENCE = 3
SILENCE_S_MIN = 15 * MINUTE_S
# Refusals count as a burst from here on, where they outnumber what was taken.
BURST_MINUTES = 5
BURST_MIN = 10


class AlarmKind(StrEnum):
    """What is wrong with a source."""

    SILENT = "silent"
    REFUSING = "refusing"


@dataclass(frozen=True, slots=True)
class Pulse:
    """What one source sent in one minute, counted from 1970."""

    minute: int
    taken: int
    refused: int


@dataclass(frozen=True, slots=True)
class Alarm:
    """One alarm. `onset` depends only on what was counted, so every process makes the same one."""

    kind: AlarmKind
    onset: int
    reason: str


@dataclass(frozen=True, slots=True)
class Rhythm:
    """A source's last days: how many busy minutes, and the longest pause between two."""

    busy: int = 0
    first: int | None = None
    last: int | None = None
    longest: int = 0

    def joined(self, recent: Sequence[Pulse]) -> "Rhythm":
        """Move the last busy minute forward by what was received since the rhythm was learned."""
        lasts = [pulse.minute for pulse in recent if pulse.taken]
        if self.last is not None:
            lasts.append(self.last)
        return replace(self, last=max(lasts, default=None))


def alarms_of(
    rhythm: Rhythm, recent: Sequence[Pulse], *, now_minute: int, silence_s: int | None
) -> list[Alarm]:
    """Judge one source by its rhythm and its latest pulses, oldest first.

    `silence_s` is the operator's own limit; None: the rhythm is learned; 0: never.
    """
    alarms = (_silent(rhythm, now_minute, silence_s), _refusing(recent, now_minute))
    return [alarm for alarm in alarms if alarm is not None]


def silence_limit_s(rhythm: Rhythm) -> int | None:
    """Say how long a source may be silent; None while too little is known of it."""
    if rhythm.busy < BUSY_MINUTES_MIN or rhythm.first is None or rhythm.last is None:
        return None
    if rhythm.last - rhythm.first < HISTORY_MINUTES_MIN:
        return None
    return max(SILENCE_S_MIN, PATIENCE * rhythm.longest * MINUTE_S)


def _silent(rhythm: Rhythm, now_minute: int, silence_s: int | None) -> Alarm | None:
    limit_s = silence_limit_s(rhythm) if silence_s is None else silence_s
    last = rhythm.last
    if not limit_s or last is None or (now_minute - last) * MINUTE_S <= limit_s:
        return None
    minutes = limit_s // MINUTE_S
    reason = f"nothing arrived for more than {minutes} minutes; look at the provider's webhook page"
    return Alarm(AlarmKind.SILENT, last, reason)


def _refusing(pulses: Sequence[Pulse], now_minute: int) -> Alarm | None:
    recent = [pulse for pulse in pulses if pulse.minute > now_minute - BURST_MINUTES]
    refused = sum(pulse.refused for pulse in recent)
    if refused < BURST_MIN or refused <= sum(pulse.taken for pulse in recent):
        return None
    # One alarm an hour, however long it lasts.
    reason = "more is refused than taken; was the secret rotated? see GET /v1/refusals"
    return Alarm(AlarmKind.REFUSING, now_minute // 60, reason)
