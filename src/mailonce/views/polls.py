"""The events of a polled route, in the public JSON."""

from typing import Any

import orjson

from mailonce.core.moment import moment
from mailonce.store.work.polls import NumberedEvent, Read


def polled(read: Read) -> bytes:
    """Write events and the cursor after the last of them."""
    return orjson.dumps({"data": [_shown(row) for row in read.rows], "cursor": read.cursor})


def _shown(row: NumberedEvent) -> dict[str, Any]:
    return {
        "cursor": row.seq,
        "id": f"dlv_{row.key.hex()}",
        "key": row.key.hex(),
        "owed_at": moment(row.made_ms),
        "redelivery": row.redeliveries,
        # The very bytes that a webhook would carry.
        "event": orjson.Fragment(row.body),
    }
