"""The requests of the API: where each goes, and under which key it may be repeated."""

import json
import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from mailonce.client.records import InboxRecord, SendRecord
from mailonce.client.steps import ApiRequest
from mailonce.errors import ParseError

JSON = "application/json"
MAIL = "message/rfc822"


def new_key() -> str:
    """Make a key for a send, an inbox, an expectation or a consumption: nobody else's has it."""
    return f"mo-{secrets.token_hex(16)}"


def get(*path: str, **query: Any) -> ApiRequest:
    """Read; a value of the query that is None is left out."""
    return ApiRequest(method="GET", path=path_of(*path, **query))


def delete(*path: str) -> ApiRequest:
    return ApiRequest(method="DELETE", path=path_of(*path))


def post(*path: str, body: Mapping[str, Any] | None = None, key: str | None = None) -> ApiRequest:
    """Change something, once under its key; a field of the body that is None is left out.

    Raises: ParseError where the key is no text, or the body cannot be written.
    """
    given = {name: value for name, value in (body or {}).items() if value is not None}
    headers = {"Content-Type": JSON}
    if key is not None:
        headers["Idempotency-Key"] = _checked_key(key)
    try:
        written = json.dumps(given).encode()
    except (TypeError, ValueError) as error:
        raise ParseError(f"this cannot be written as JSON: {error}; correct it") from error
    return ApiRequest(method="POST", path=path_of(*path), headers=headers, body=written)


def _checked_key(key: object) -> str:
    if not isinstance(key, str):
        kind = type(key).__name__
        raise ParseError(f"`key` is no text but of the type {kind}; give text, such as 'order-17'")
    return key


def post_mail(*path: str, mail: bytes, **query: Any) -> ApiRequest:
    """Put a mail somewhere; its bytes are its key."""
    return ApiRequest(
        method="POST", path=path_of(*path, **query), headers={"Content-Type": MAIL}, body=mail
    )


def path_of(*parts: str, **query: Any) -> str:
    """Write a path of the API with its query."""
    path = "/v1/" + "/".join(quote(part, safe="") for part in parts)
    given = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


def name_of(named: InboxRecord | SendRecord | str) -> str:
    """Give the id of an inbox or a send, or the word by which a caller names it."""
    return named if isinstance(named, str) else named.id
