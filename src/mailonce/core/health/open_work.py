"""Judge what waits for a person, and whose other side does not answer. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mailonce.core.health.checkup import WHILE_DOWN, Finding, Level
from mailonce.core.health.record_name import RecordName, option_of

# How many workspaces have a finding of their own.
WORKSPACES_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWork:
    """What waits for a person, by workspace; '' is the default one.

    `down`: the routes and senders, by noun and name, whose other side does not answer.
    """

    dead_letters: Mapping[str, int]
    sends_need_person: Mapping[str, int]
    down: Sequence[tuple[str, RecordName]] = ()


def of_open(open_: OpenWork) -> list[Finding]:
    """Show what waits for a person, and whose other side does not answer."""
    findings = [
        Finding(
            f"{noun} {name}",
            Level.WARN,
            f"is taken to be down; {WHILE_DOWN[noun]} until it answers",
            f"see `mailonce undelivered{option_of(name.workspace)}`"
            if noun == "route"
            else "see the provider's status page",
        )
        for noun, name in open_.down
    ]
    findings += _by_workspace(
        "dead letters", open_.dead_letters, "open", "dead list", "retry or dismiss them"
    )
    findings += _by_workspace(
        "sends",
        open_.sends_need_person,
        "unknown, and only a person can settle them",
        "sends list --state unknown",
        "resolve or resend them",
    )
    nothing = "no dead letters, and no sends that need a person"
    return findings or [Finding("open work", Level.OK, nothing)]


def _by_workspace(
    noun: str, counts: Mapping[str, int], state: str, command: str, then: str
) -> list[Finding]:
    """Say how many there are in each of the first workspaces, and which command shows them."""
    first = sorted(name for name, many in counts.items() if many)[:WORKSPACES_MAX]
    findings = [
        Finding(
            str(RecordName(noun, name)),
            Level.WARN,
            f"{counts[name]:,} {state}",
            f"see `mailonce {command}{option_of(name)}`; {then}",
        )
        for name in first
    ]
    rest = [many for name, many in counts.items() if many and name not in first]
    if rest:
        detail = f"{sum(rest):,} {state}, in {len(rest):,} further workspaces"
        advice = f"see `mailonce {command} --workspace NAME` of each; {then}"
        findings.append(Finding(noun, Level.WARN, detail, advice))
    return findings
