"""Take typed values out of whatever a provider sent: a wrong type is None, never an error."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from mailonce.core import json_text
from mailonce.core.mail.domain_name import domain_in_ascii
from mailonce.core.text import UNSTORABLE
from mailonce.errors import ParseError

# Up to the year 9999, which is the end of `datetime`; below zero it is before any email.
TIME_MS_MAX = 253_402_300_799_999
TEXT_CHARS_MAX = 2_000
ADDRESS_CHARS_MAX = 320

# A local part that means the same without its quotes.
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_QUOTED = re.compile(rf'"({_ATOM}(?:\.{_ATOM})*)"')
_EMPTY: Mapping[str, Any] = {}


def text_of(value: Any, chars_max: int = TEXT_CHARS_MAX) -> str | None:
    """Read a string (or a number as its text), storable anywhere: no NUL, no lone surrogate."""
    if value is None:
        return None
    if isinstance(value, str):
        text = value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        text = str(value)
    else:
        return None
    if not text:
        return None
    if not text.isascii() or "\x00" in text:
        text = UNSTORABLE.sub("\ufffd", text)
    return text if len(text) <= chars_max else text[:chars_max]


def word_of(value: Any) -> str:
    """Read a provider's word for something; '' where there is none."""
    return value if isinstance(value, str) else ""


def mapping_of(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else _EMPTY


def list_of(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def texts_of(value: Any, most: int = 50) -> tuple[str, ...]:
    """Read one string or a list of strings, such as tags."""
    if value is None:
        return ()
    items = value if isinstance(value, list) else [value]
    return tuple([text for item in items[:most] if (text := text_of(item, 200)) is not None])


def metadata_of(value: Any, most: int = 50) -> Mapping[str, Any]:
    """Read a flat mapping of the sender's own data, within bounds; nested values are None."""
    if not isinstance(value, dict):
        return _EMPTY
    metadata: dict[str, Any] = {}
    for name, item in islice(value.items(), most):
        key = text_of(name, 200)
        if key is not None:
            metadata[key] = item if isinstance(item, bool) else text_of(item)
    return metadata


def metadata_in(value: Any, name: str) -> Mapping[str, Any]:
    """Read the sender's own data out of a text: a JSON object, or else the text under `name`."""
    text = text_of(value)
    if text is None:
        return _EMPTY
    try:
        data = json_text.read(word_of(value).encode("utf-8", "surrogatepass"))
    except ParseError:
        data = None
    return metadata_of(data) if isinstance(data, dict) else {name: text}


def first_text_of(*values: Any) -> str | None:
    """Read the first of several values that is a text."""
    texts = (text_of(value) for value in values)
    return next((text for text in texts if text is not None), None)


def address_of(value: Any) -> str:
    """Read a bare address in its one spelling, casefolded; '' where there is none."""
    if not isinstance(value, str):
        return ""
    text = bare_address(value)
    if not text.isascii() or "\x00" in text:
        text = UNSTORABLE.sub("\ufffd", text)
    elif text[:1] != '"' and text[-1:] != ".":
        return text[:ADDRESS_CHARS_MAX].casefold()
    return _one_spelling(text[:ADDRESS_CHARS_MAX])


def bare_address(text: str) -> str:
    """Take an address out of its angle brackets, without the name before them."""
    text = text.strip()
    if "<" not in text:
        return text
    # Not email.utils.parseaddr: nested comments make it overflow the stack.
    return text.rpartition("<")[2].partition(">")[0].strip() or text


def _one_spelling(address: str) -> str:
    """Write the domain as DNS has it, and take away quotes that an address does not need."""
    local, at, domain = address.rpartition("@")
    if not at:
        return address.casefold()
    quoted = _QUOTED.fullmatch(local)
    local = local if quoted is None else quoted[1]
    spelling = f"{local.casefold()}@{domain_in_ascii(domain) or domain.casefold()}"
    return spelling[:ADDRESS_CHARS_MAX]


def recipient_of(value: Any) -> tuple[str, bool]:
    """Read whom an event is about, and whether that is certain.

    A list of several names candidates only: one event, of which we cannot say whose it is.
    """
    if not isinstance(value, list):
        return address_of(value), True
    addresses = {address_of(one) for one in value} - {""}
    return (addresses.pop(), True) if len(addresses) == 1 else ("", not addresses)


def epoch_ms_of(value: Any) -> int | None:
    """Read unix seconds, whole or with a fraction, as number or text."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        ms = value * 1000
    elif isinstance(value, float | str):
        try:
            ms = round(float(value) * 1000)
        except (ValueError, OverflowError):
            return None
    else:
        return None
    return ms if 0 <= ms <= TIME_MS_MAX else None


def iso_ms_of(value: Any) -> int | None:
    """Read an ISO-8601 time with any number of fractional digits; without a zone it is UTC."""
    if not isinstance(value, str) or not 10 <= len(value) <= 40:
        return None
    try:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        ms = round(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
    return ms if 0 <= ms <= TIME_MS_MAX else None


def time_ms_of(value: Any) -> int | None:
    """Read unix seconds or an ISO-8601 time, where a sender writes now the one, now the other."""
    seconds = epoch_ms_of(value)
    return iso_ms_of(value) if seconds is None else seconds


def pointer(value: Any, path: str) -> Any:
    """Follow a JSON pointer (RFC 6901); None where it leads nowhere."""
    for step in path.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(name)
        elif (
            isinstance(value, list)
            and name.isdecimal()
            and len(name) < 6
            and int(name) < len(value)
        ):
            value = value[int(name)]
        else:
            return None
    return value
