"""The events of a polled route, in the public JSON."""

import asyncio
from typing import Any

import orjson

from mailonce.core.access import Caller
from mailonce.core.moment import moment
from mailonce.store.work.polls import NumberedEvent, Read
from mailonce.views.reader_body import body_for_reader, is_limited


async def polled(caller: Caller, read: Read) -> bytes:
    """Write events, as the caller may see them, and the cursor after the last of them."""
    limited = is_limited(caller)
    if limited:
        # Reading the HTML of mails takes a while, and the server has others to answer.
        return await asyncio.to_thread(_written, read, limited=limited)
    return _written(read, limited=limited)


def _written(read: Read, *, limited: bool) -> bytes:
    rows = [_shown(row, limited=limited) for row in read.rows]
    return orjson.dumps({"data": rows, "cursor": read.cursor})


def _shown(row: NumberedEvent, *, limited: bool) -> dict[str, Any]:
    # What a mapping made is what its route was made for.
    body = (body_for_reader(row.body) or row.body) if limited else row.body
    return {
        "cursor": row.seq,
        "id": f"dlv_{row.key.hex()}",
        "key": row.key.hex(),
        "owed_at": moment(row.made_ms),
        "redelivery": row.redeliveries,
        # The very bytes that a webhook would carry, but for what a reader's key may not see.
        "event": orjson.Fragment(body),
    }
