"""Retry: a dead letter is read and recorded again, with today's code, or delivered again."""

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

import orjson
from msgspec.structs import replace

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Provider
from mailonce.core.arrivals.source import Source
from mailonce.core.deliveries.delivery import delivery_id
from mailonce.core.ids import private, public
from mailonce.core.ledger.entry import GuardBroken
from mailonce.core.text import storable
from mailonce.core.work.lifecycle import ENDS
from mailonce.core.work.states import State
from mailonce.errors import ClashError, MissingError, ParseError, RefusedError
from mailonce.pipeline.dismiss_dead_letter import closed_words
from mailonce.pipeline.parse import REASON_CHARS_MAX
from mailonce.pipeline.receive import GUARD_BROKEN, Receiving, count, provider_of
from mailonce.store.dialects.contract import Tx
from mailonce.store.ledger import dead_letters
from mailonce.store.ledger.dead_letters import DeadLetter
from mailonce.store.work import pages

# Its bytes, where we have them, are in its inbox; a letter of a mail holds none.
UNREAD_MAIL = (
    "a mail that could not be read is not tried again; have the mail sent again, "
    "then dismiss this dead letter"
)
SOURCE_REMOVED = (
    "its source was removed; add it again, then name it when you retry: `source` in the request, "
    "--as NAME on the command line"
)

# Says whether the letter was still open.
Redeliver = Callable[[DeadLetter], Awaitable[bool]]


class _RetryState(NamedTuple):
    """What became of a delivery since its letter was retried."""

    state: State
    open_letter: bytes | None


async def retry(
    parts: Receiving,
    sources: Mapping[str, Source],
    redeliver: Redeliver,
    workspace: str,
    public_id: str,
    *,
    read_as: Source | None = None,
) -> bool:
    """Try a dead letter again; it is resolved once it took effect. Say whether we did that.

    Where an arrival still cannot be read, that is counted; a delivery that cannot be sent again
    stays as it is.

    A crash between the two leaves it open, and trying again finds copies. `read_as` is a source of
    the same workspace that stands in for one that was removed. A letter whose retry is still
    pending stays as it is: whoever lost the answer may ask again, and is told that it was not them.
    Raises: MissingError, ClashError where it is closed, RefusedError with the reason, which the
    letter of an arrival keeps, UnavailableError.
    """
    letter, later = await _read(parts, workspace, public_id)
    if letter.resolved_ms is None:
        if letter.kind != "delivery":
            return await _retry_arrival(parts, sources.get(letter.source), letter, read_as=read_as)
        # Nothing was tried where that is refused: the letter keeps what its attempts met.
        if await redeliver(letter):
            return True
        # Somebody else has closed it since.
        letter, later = await _read(parts, workspace, public_id)
    if later is None or later.state in ENDS:
        # Dismissed letters, too: erasing what is known of a person dismisses them.
        raise ClashError(_closed(letter, later))
    return False


async def _read(
    parts: Receiving, workspace: str, public_id: str
) -> tuple[DeadLetter, _RetryState | None]:
    id_ = private("dead", public_id)
    pair = await parts.database.read(lambda tx: _find(tx, workspace, id_))
    if pair is None:
        raise MissingError(f"there is no dead letter {public_id[:80]!r}; see GET /v1/dead-letters")
    return pair


def _find(tx: Tx, workspace: str, letter_id: bytes) -> tuple[DeadLetter, _RetryState | None] | None:
    letter = dead_letters.get(tx, workspace, letter_id)
    if letter is None:
        return None
    if letter.resolved_ms is None or letter.is_dismissed or letter.delivery is None:
        return dead_letters.whole(tx, letter), None
    delivery = pages.get(tx, workspace, letter.delivery)
    if delivery is None:
        return letter, None
    return letter, _RetryState(delivery.state, dead_letters.open_of(tx, workspace, letter.delivery))


def _closed(letter: DeadLetter, later: _RetryState | None) -> str:
    """Say how and when a letter was closed, and what became of its retry."""
    closed = closed_words(letter)
    if letter.is_dismissed and letter.delivery is not None:
        return f"{closed}; use `mailonce redeliver {delivery_id(letter.delivery)}`"
    if later is None:
        return closed
    if later.open_letter is not None:
        return f"{closed}; its retry failed again: {public('dead', later.open_letter)} is open"
    became = "was delivered" if later.state == State.DONE else "failed again, and was dismissed"
    return f"{closed}; its retry {became}"


async def _retry_arrival(
    parts: Receiving, own: Source | None, letter: DeadLetter, *, read_as: Source | None
) -> bool:
    """Read an arrival again, and say whether its letter was open until then.

    Where it cannot be read, the letter counts that and keeps the reason.
    """
    try:
        return await _record_again(parts, own, letter, read_as=read_as)
    except RefusedError as error:
        reason = storable(str(error), chars_max=REASON_CHARS_MAX)
        now_ms = parts.clock.now_ms()
        await parts.database.write(
            lambda tx: dead_letters.fail_again(
                tx, letter.workspace, letter.id, error=reason, now_ms=now_ms
            )
        )
        raise


async def _record_again(
    parts: Receiving, own: Source | None, letter: DeadLetter, *, read_as: Source | None
) -> bool:
    if letter.kind == "mail":
        raise RefusedError(UNREAD_MAIL)
    if own is not None and read_as is not None and read_as.id != own.id:
        raise RefusedError(f"its own source {own.name!r} is there; retry it without another one")
    source = own or read_as
    if source is None:
        raise MissingError(SOURCE_REMOVED)
    await _record_letter(parts, provider_of(source), source, letter)
    now_ms = parts.clock.now_ms()
    return await parts.database.write(
        lambda tx: dead_letters.resolve(tx, letter.workspace, letter.id, now_ms=now_ms)
    )


async def _record_letter(
    parts: Receiving, provider: Provider, source: Source, letter: DeadLetter
) -> None:
    headers = orjson.loads(letter.headers or b"{}")
    arrival = Arrival(method="POST", headers=headers, body=letter.raw, now_ms=parts.clock.now_ms())
    try:
        parsed = provider.parse(arrival, source)
    except ParseError:
        # One element of an array stands alone in its dead letter.
        arrival = replace(arrival, body=b"[" + letter.raw + b"]")
        parsed = provider.parse(arrival, source)
    if parsed.unreadable:
        raise ParseError(f"it still cannot be read: {parsed.unreadable[0].reason}")
    entry = parts.entry_of(provider, source, arrival, parsed)
    answer = await parts.recorder.record(entry)
    if isinstance(answer, GuardBroken):
        raise RefusedError(GUARD_BROKEN.reason)
    count(parts, source, arrival, entry, answer)
    if answer.events != len(entry.events):
        raise RefusedError("the database cannot hold it; see the log of the server")
