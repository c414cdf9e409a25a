"""What the answer to a call says, as far as HTTP alone can tell.

A status of 4xx says that nothing was taken, but for those that speak of time (408) or of another
copy (409). 5xx says that something broke, before or after the mail was taken. Each provider's file
says where it is known to mean more, or less.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from mailonce.core import json_text
from mailonce.core.reading.values import mapping_of, text_of
from mailonce.core.sends.sending import (
    Accepted,
    Fault,
    Found,
    LookupOutcome,
    NotFound,
    NotSent,
    ProviderAnswer,
    SendOutcome,
    TryAgain,
    Unknown,
)
from mailonce.core.work.response_outcome import retry_after_ms
from mailonce.errors import ParseError

REASON_CHARS_MAX = 300
# It is about who asks, or where, not about the mail.
_SENDER = frozenset({401, 402, 403, 404, 405, 406, 407, 410, 411, 421, 426, 451})
# They say what happened to time or to another copy, not to this mail.
_UNCLEAR = frozenset({408, 409, 423, 425, 499})
# The same request is wanted elsewhere. Other redirects may well follow a success.
_MOVED = frozenset({301, 307, 308})
_ADDRESS = re.compile(r"[^\s<>\"',;:()\[\]]+@[^\s<>\"',;:()\[\]]+")
_SPACES = re.compile(r"\s+")


def refusal(answer: ProviderAnswer, says: str = "") -> SendOutcome:
    """Class an answer that is no 2xx by its status; `says` is the provider's own explanation."""
    status = answer.status
    reason = reason_of(status, says)
    if status == 429:
        return TryAgain(reason=reason, retry_after_ms=wait_ms(answer))
    if status in _UNCLEAR:
        return Unknown(reason=reason)
    if 400 <= status < 500:
        return NotSent(reason=reason, fault=Fault.SENDER if status in _SENDER else Fault.MESSAGE)
    if status in _MOVED:
        return NotSent(
            reason=f"{reason}: it wants another URL; correct `endpoint`", fault=Fault.SENDER
        )
    return Unknown(reason=reason)


def is_success(answer: ProviderAnswer) -> bool:
    return 200 <= answer.status < 300


def taken(answer: ProviderAnswer, message_id: str | None) -> Accepted | Unknown:
    """Class a 2xx of a provider that refuses by status alone.

    Its status is enough where the body broke off. A whole body without an id is somebody else's.
    """
    if message_id is None and answer.is_whole:
        return unreadable(answer)
    return Accepted(message_id=message_id, evidence=f"answered {answer.status}")


def unreadable(answer: ProviderAnswer) -> Unknown:
    """Class a 2xx whose body should say more and cannot be read."""
    what = "cannot be read" if answer.is_whole else "broke off"
    return Unknown(reason=f"answered {answer.status}, but its body {what}")


def reason_of(status: int, says: str = "") -> str:
    """Write a reason for the ledger."""
    text = short(says)
    return f"answered {status}: {text}" if text else f"answered {status}"


def short(text: str) -> str:
    """Make somebody else's words fit for the ledger: few, on one line, without addresses."""
    line = _SPACES.sub(" ", _ADDRESS.sub("…@…", text[: 4 * REASON_CHARS_MAX])).strip()
    return "".join(one for one in line if one.isprintable())[:REASON_CHARS_MAX]


def wait_ms(answer: ProviderAnswer) -> int | None:
    """Read how long a provider wants us to wait."""
    return retry_after_ms(answer.headers.get("retry-after"), now_ms=answer.received_ms)


def json_of(answer: ProviderAnswer) -> Any:
    """Read the body as JSON; None where it is cut off or none."""
    if not answer.is_whole:
        return None
    try:
        return json_text.read(answer.body)
    except ParseError:
        return None


def object_of(answer: ProviderAnswer) -> dict[str, Any] | None:
    body = json_of(answer)
    return body if isinstance(body, dict) else None


def says(value: Any) -> str:
    """Find the words of an error in the shapes that providers give it."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "; ".join(filter(None, map(says, value[:3])))
    if not isinstance(value, dict):
        return ""
    names = ("name", "code", "ErrorCode", "error_code", "message", "Message", "ErrorMessage",
             "error", "error_description", "description", "detail", "errors")  # fmt: skip
    words = (text_of(value[name]) or says(value[name]) for name in names if name in value)
    return " ".join(filter(None, words))


def read_lookup(
    answer: ProviderAnswer,
    *path: str,
    is_ours: Callable[[Mapping[str, Any]], bool],
    message_id: Callable[[Mapping[str, Any]], Any],
) -> LookupOutcome:
    """Look for a send among the items of a lookup, which stand in a list at the end of `path`.

    A lookup that failed says no more than one that shows nothing.
    """
    if answer.status == 404:
        return NotFound()
    if not is_success(answer):
        return Unknown(reason=reason_of(answer.status), retry_after_ms=wait_ms(answer))
    items: Any = json_of(answer)
    for name in path:
        items = mapping_of(items).get(name)
    if not isinstance(items, list):
        return unreadable(answer)
    for item in items:
        if isinstance(item, dict) and is_ours(item):
            return Found(message_id=text_of(message_id(item), 400), evidence="found by a lookup")
    return NotFound()
