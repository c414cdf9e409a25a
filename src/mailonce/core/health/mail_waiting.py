"""Judge mail that waits for its provider to hand it over. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from mailonce.core.health.checkup import Finding, Level
from mailonce.core.health.record_name import RecordName, option_of

MINUTE_MS = 60_000
# A provider that was away for less is no reason to look.
WAIT_MS_MAX = 5 * MINUTE_MS
SENTENCE_CHARS_MAX = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingMail:
    """Mails of one source that have to be fetched, the oldest of them for so long.

    `error` is that of its last attempt; None where it was not tried yet. `name` is None where the
    source was deleted.
    """

    source: str
    name: RecordName | None
    mails: int
    wait_ms: int
    error: str | None


def of_waiting(waiting: Iterable[WaitingMail]) -> list[Finding]:
    """Show the sources whose mail waits for its provider."""
    return [_finding(one) for one in waiting]


def _finding(one: WaitingMail) -> Finding:
    many = "1 mail waits" if one.mails == 1 else f"{one.mails:,} mails wait"
    minutes = one.wait_ms // MINUTE_MS
    error = "it was not tried yet" if one.error is None else one.error[:SENTENCE_CHARS_MAX]
    detail = f"{many} to be fetched from the provider, the oldest for {minutes:,} minutes: {error}"
    if one.name is None:
        advice = (
            "the source was deleted; make one of the same provider and account, or let each mail "
            "be given up after an hour"
        )
    elif one.error is None:
        advice = "see that a worker runs: `mailonce serve`, with no role or with `--role worker`"
    else:
        advice = (
            "see the provider's status page and the source's `api_key`; each mail is tried for an "
            f"hour, and then in `mailonce dead list --kind mail{option_of(one.name.workspace)}`"
        )
    return Finding(f"source {one.name or one.source}", Level.WARN, detail, advice)
