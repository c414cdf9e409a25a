"""Retry: a dead letter is parsed and recorded again, with today's code."""

import orjson
from msgspec.structs import replace

from mailonce.core.arrival import Arrival
from mailonce.core.entry import GuardBroken
from mailonce.core.provider import Provider
from mailonce.core.source import Source
from mailonce.core.text import storable
from mailonce.errors import ParseError, RefusedError
from mailonce.pipeline.parse import REASON_CHARS_MAX, parse
from mailonce.pipeline.receive import GUARD_BROKEN, Door, Pending, provider_of
from mailonce.store import dead_letters
from mailonce.store.dead_letters import DeadLetter


async def retry(door: Door, source: Source, letter: DeadLetter) -> None:
    """Parse and record a dead letter again; it is resolved once it took effect.

    A crash between the two leaves it open, and trying again finds copies. What fails is counted.
    Raises: RefusedError where it still cannot be read or recorded, UnavailableError.
    """
    provider = provider_of(source)
    now_ms = door.clock.now_ms()
    try:
        await _record_letter(door, provider, source, letter)
    except RefusedError as error:
        reason = storable(str(error), chars_max=REASON_CHARS_MAX)
        await door.database.write(
            lambda tx: dead_letters.fail_again(
                tx, letter.workspace, letter.id, error=reason, now_ms=now_ms
            )
        )
        raise
    await door.database.write(
        lambda tx: dead_letters.resolve(tx, letter.workspace, letter.id, now_ms=now_ms)
    )


async def _record_letter(
    door: Door, provider: Provider, source: Source, letter: DeadLetter
) -> None:
    headers = orjson.loads(letter.headers or b"{}")
    arrival = Arrival(method="POST", headers=headers, body=letter.raw, now_ms=door.clock.now_ms())
    try:
        parsed = parse(provider, source, arrival)
    except ParseError:
        # One element of an array stands alone in its dead letter.
        arrival = replace(arrival, body=b"[" + letter.raw + b"]")
        parsed = parse(provider, source, arrival)
    if parsed.unreadable:
        raise ParseError(f"it still cannot be read: {parsed.unreadable[0].reason}")
    entry = door.entry_of(provider, source, arrival, parsed)
    answer = await door.recorder.record(entry)
    Pending(door, provider, source, arrival, entry).reply_to(answer)
    if isinstance(answer, GuardBroken):
        raise RefusedError(GUARD_BROKEN)
    if answer.events != len(entry.events):
        raise RefusedError("the database cannot hold it; see the log of the server")
