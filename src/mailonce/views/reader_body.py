"""Bodies of deliveries for `reader` keys, which see neither the HTML, the headers nor the bytes."""

from typing import Any

import orjson

from mailonce.core.access import WRITES, Caller
from mailonce.core.deliveries.delivery import SCHEMA
from mailonce.core.mail.reader_view import reader_view


def is_limited(caller: Caller) -> bool:
    """Say whether a caller sees of a mail no more than a person would."""
    return caller.scope not in WRITES


def body_for_reader(body: bytes) -> bytes | None:
    """Write a body with the reader's view of its mail; None where it cannot be told what is in it.

    That is one which a route's mapping made: it may have a mail's HTML under any name.
    """
    try:
        event: Any = orjson.loads(body)
    except ValueError:
        return None
    if not isinstance(event, dict) or event.get("schema") != SCHEMA:
        return None
    message = event.get("message")
    if message is None:
        return body
    return orjson.dumps({**event, "message": reader_view(message)})
