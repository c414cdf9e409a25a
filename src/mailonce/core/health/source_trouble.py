"""Judge sources by what became of their arrivals: alarms, and what was refused of late. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import assert_never

from mailonce.core.health.alarm import AlarmKind, Pulse
from mailonce.core.health.checkup import NAMES_MAX, Finding, Level
from mailonce.core.health.record_name import RecordName, option_of
from mailonce.core.moment import moment

MINUTE_MS = 60_000
REASONS_MAX = 3
SOURCES_MAX = 20


@dataclass(frozen=True, slots=True)
class SourceAlarm:
    """An alarm that is on."""

    name: RecordName
    kind: AlarmKind


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentRefusal:
    """How often arrivals of a source were refused for one reason in the last hour."""

    name: RecordName
    reason: str
    count: int
    advice: str
    # The last of these refusals, in minutes since 1970.
    last_minute: int
    # What the source sent in each minute, whatever became of it.
    pulses: Sequence[Pulse] = ()
    # Whether there is a source with that name.
    is_known: bool = True


def of_alarms(alarms: Iterable[SourceAlarm]) -> list[Finding]:
    """Show the alarms that are on."""
    return [_alarm(one) for one in alarms]


def of_refusals(recent: Iterable[RecentRefusal]) -> list[Finding]:
    """Show which sources refused something in the last hour, and for which reasons."""
    by_source: dict[RecordName, list[RecentRefusal]] = defaultdict(list)
    for one in recent:
        by_source[one.name].append(one)
    ordered = sorted(by_source.values(), key=lambda some: (-_sum(some), some[0].name))
    findings = [_refusals(some) for some in ordered[:SOURCES_MAX]]
    rest = ordered[SOURCES_MAX:]
    if rest:
        many = f"{len(rest):,} more refused {sum(map(_sum, rest)):,} arrivals in the last hour"
        places = sorted({some[0].name.workspace for some in rest})
        commands = " and ".join(
            f"`mailonce refusals{option_of(one)}`" for one in places[:NAMES_MAX]
        )
        more = f" and {len(places) - NAMES_MAX:,} further workspaces" if places[NAMES_MAX:] else ""
        findings.append(Finding("sources", Level.WARN, many, f"see {commands}{more}"))
    return findings


def _alarm(alarm: SourceAlarm) -> Finding:
    match alarm.kind:
        case AlarmKind.SILENT:
            detail = "alarm: nothing arrives, for longer than it was ever normal"
            advice = "look at the provider's webhook page; silence_s of the source sets the limit"
        case AlarmKind.REFUSING:
            detail = "alarm: more is refused than taken"
            advice = (
                f"see `mailonce refusals --source {alarm.name.in_command}`; was the secret rotated?"
            )
        case _:
            assert_never(alarm.kind)
    # What is refused or does not come may be lost: some providers give up soon.
    return Finding(f"source {alarm.name}", Level.FAIL, detail, advice)


def _refusals(some: Sequence[RecentRefusal]) -> Finding:
    """Show one source, with the advice for what it refused most often."""
    first, *_ = ordered = sorted(some, key=lambda one: (-one.count, one.reason))
    reasons = ", ".join(f"{one.reason} ({one.count:,})" for one in ordered[:REASONS_MAX])
    more = ", …" if len(ordered) > REASONS_MAX else ""
    only = f" --source {first.name.in_command}" if first.is_known else ""
    last_minute = max(one.last_minute for one in some)
    # Whether something of the same minute came before or after the refusal is not known.
    accepted = sum(pulse.taken for pulse in first.pulses if pulse.minute > last_minute)
    detail = (
        f"{_sum(some):,} refused in the last hour: {reasons}{more}; "
        f"last at {moment(last_minute * MINUTE_MS)[11:16]}Z, "
        f"{f'{accepted:,}' if accepted else 'nothing'} accepted in later minutes"
    )
    unless = "if it was not corrected since: " if accepted else ""
    advice = f"{unless}{first.advice}; see `mailonce refusals{only}`"
    return Finding(f"source {first.name}", Level.WARN, detail, advice)


def _sum(some: Iterable[RecentRefusal]) -> int:
    return sum(one.count for one in some)
