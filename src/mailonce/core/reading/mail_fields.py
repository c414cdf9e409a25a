"""Take envelopes and the parts of a mail out of what a provider's inbound hook sent.

An address of an envelope decides which inbox gets a mail, so it is taken as it was written or not
at all: never cut, never mended. Texts of a mail are kept whole, but for what no database and no
JSON can hold.
"""

import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from math import isfinite
from typing import Any, get_args

from mailonce.core.arrivals.source import Source
from mailonce.core.mail.budget import DigestBudget, DigestLimits
from mailonce.core.mail.incoming import (
    AddressField,
    AuthenticationCheck,
    AuthenticationResult,
    EnvelopeOrigin,
    MailEnvelope,
    MimeContent,
)
from mailonce.core.mail.mime.address_list import NAME_CHARS_MAX, read_addresses
from mailonce.core.mail.mime.charset import decode_text
from mailonce.core.reading import values
from mailonce.core.text import UNSTORABLE, storable
from mailonce.errors import ParseError

RECIPIENTS_MAX = 1_000
HEADERS_MAX = 2_000
MAILBOXES_CHARS_MAX = 64 << 10
FILES_MAX = 1_000
# The option by which an operator lets headers decide, where a provider gives no envelope.
HEADERS_DECIDE = "recipients_from_headers"

_CONTROLS = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_RESULTS: frozenset[str] = frozenset(get_args(AuthenticationResult))
_SPACES = b" \t\r\n"
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
_HEADER = re.compile(r"([!-9;-~]{1,200}+)[ \t]*+:[ \t]*+(.*)", re.DOTALL)
_FOLD = re.compile(r"\r?\n(?![ \t])")


def mail_from_of(value: Any) -> str | None:
    """Read the sender of an envelope; '' is the null sender, None an unknown one."""
    if not isinstance(value, str):
        return None
    address = _bare(value)
    return address if _is_address(address) or not address else None


def recipients_of(given: Any) -> tuple[str, ...]:
    """Read the recipients of an envelope, each once; what cannot be an address is left out.

    Raises: ParseError where there are more than any mail has.
    """
    listed = given if isinstance(given, list) else [given]
    if len(listed) > RECIPIENTS_MAX:
        raise ParseError(f"the envelope has more than {RECIPIENTS_MAX} recipients")
    bare = (_bare(one) for one in listed if isinstance(one, str))
    return tuple(dict.fromkeys(filter(_is_address, bare)))


def envelope_of(
    mail_from: Any, recipients: Any, *, origin: EnvelopeOrigin = "provider"
) -> MailEnvelope:
    """Make the envelope that a provider told; without a recipient it counts as absent."""
    people = recipients_of(recipients)
    return MailEnvelope(
        mail_from=mail_from_of(mail_from), recipients=people, origin=origin if people else "absent"
    )


def envelope_by_headers(
    source: Source, mail_from: Any, people: Iterable[AddressField]
) -> MailEnvelope:
    """Make an envelope where the provider tells none: of the headers, if the operator said so.

    Anybody writes headers, so by default such a mail is for nobody we know.
    """
    allowed = source.options.get(HEADERS_DECIDE) is True
    addresses = [one.address for one in people] if allowed else []
    return envelope_of(mail_from, addresses, origin="header")


def text_of(value: Any) -> str | None:
    """Read a text of any length; None where there is none."""
    if not isinstance(value, str) or not value:
        return None
    is_plain = value.isascii() and "\x00" not in value
    return value if is_plain else UNSTORABLE.sub("\ufffd", value)


def decoded_text(raw: bytes, charset: str | None) -> str | None:
    """Decode a text in the charset that was named for it; what cannot be decoded is replaced."""
    return text_of(decode_text(raw, charset, _budget()).text)


def mailboxes_of(value: Any) -> tuple[AddressField, ...]:
    """Read the mailboxes of a header, or of a list of such texts, with their names decoded."""
    listed = value if isinstance(value, list) else [value]
    text = text_of(",".join(one for one in listed if isinstance(one, str)))
    addresses = read_addresses((text or "")[:MAILBOXES_CHARS_MAX], _budget())
    return tuple(one for one in addresses if "@" in one.address)


def named_mailboxes(given: Any, *, address: str, name: str) -> tuple[AddressField, ...]:
    """Read mailboxes that come as objects (or one object) with these two fields."""
    listed = given if isinstance(given, list) else [given]
    people = [values.mapping_of(one) for one in listed[:RECIPIENTS_MAX]]
    return tuple(
        AddressField(
            text, storable(values.word_of(one.get(name)), chars_max=NAME_CHARS_MAX) or None
        )
        for one in people
        if (text := values.text_of(one.get(address), values.ADDRESS_CHARS_MAX)) is not None
    )


def header_pairs(given: Any, *, name: str = "", value: str = "") -> tuple[tuple[str, str], ...]:
    """Read headers: a list of pairs or of objects, or an object whose repeats are lists."""
    return tuple(_first(_pairs(given, name, value), HEADERS_MAX))


def header_lines(block: str) -> tuple[tuple[str, str], ...]:
    """Read the headers of a raw block, unfolded; what is no header is passed over."""
    # What stands behind the last that is read would be one line with it.
    first = _FOLD.split(block, HEADERS_MAX)[:HEADERS_MAX]
    lines = (_HEADER.fullmatch(line.rstrip("\r")) for line in first)
    pairs = ((one[1], re.sub(r"\r?\n", "", one[2])) for one in lines if one is not None)
    return tuple((name, text_of(text) or "") for name, text in pairs)


def header_of(headers: Iterable[tuple[str, str]], name: str) -> str | None:
    """Give the value of a header; of repeated ones the first."""
    return next((text for key, text in headers if key.lower() == name), None)


def only_header(headers: Iterable[tuple[str, str]], name: str) -> str | None:
    """Give the value of a header that stands there once: of two, a sender may have written one."""
    texts = [text for key, text in headers if key.lower() == name]
    return texts[0] if len(texts) == 1 else None


def mime_of(text: str) -> MimeContent:
    """Take a mail that came as text for the bytes that it was."""
    return MimeContent(text.encode("utf-8", "surrogatepass"))


def mime_in_base64(text: str) -> MimeContent:
    """Decode a whole mail.

    Raises: ParseError where it is no Base64.
    """
    try:
        letters = text.encode("ascii").translate(None, _SPACES)
        return MimeContent(binascii.a2b_base64(letters, strict_mode=True))
    except ValueError as error:
        raise ParseError("the mail is said to be Base64 and is not") from error


def content_in_base64(text: Any) -> bytes:
    """Decode an attachment; what is no Base64 is kept as it came, rather than lost."""
    if not isinstance(text, str):
        return b""
    raw = text.encode("utf-8", "surrogatepass")
    letters = raw.translate(None, _SPACES)
    if letters.translate(None, _BASE64):
        return raw
    try:
        return binascii.a2b_base64(letters + b"=" * (-len(letters) % 4))
    except ValueError:
        return raw


def files_of(given: Any) -> tuple[Mapping[str, Any], ...]:
    """Read a list of objects, one for each attachment.

    Raises: ParseError where there are more than any mail has.
    """
    listed = values.list_of(given)
    if len(listed) > FILES_MAX:
        raise ParseError(f"the mail has more than {FILES_MAX} attachments")
    return tuple(map(values.mapping_of, listed))


def type_of(value: Any) -> str:
    """Read a content type, as it was written."""
    return values.text_of(value, 500) or "application/octet-stream"


def content_id_of(value: Any) -> str | None:
    """Read a Content-ID without its angle brackets."""
    return (values.text_of(value, 500) or "").strip().removeprefix("<").removesuffix(">") or None


def check_of(word: Any, *, domain: str | None = None) -> AuthenticationCheck | None:
    """Read the result of a check; a word that means nothing to RFC 8601 is `unknown`."""
    if not isinstance(word, str) or not word.strip():
        return None
    return AuthenticationCheck(result=result_of(word), domain=domain)


def result_of(word: str) -> AuthenticationResult:
    text = word.strip().lower()
    return text if text in _RESULTS else "unknown"  # type: ignore[return-value]


def number_of(value: Any) -> float | None:
    """Read a number or its text; nothing infinite."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if isfinite(number) else None


def _budget() -> DigestBudget:
    return DigestBudget(DigestLimits())


def _bare(text: str) -> str:
    text = text.strip(" \t")
    return text[1:-1].strip(" \t") if text.startswith("<") and text.endswith(">") else text


def _is_address(text: str) -> bool:
    return "@" in text and len(text) <= values.ADDRESS_CHARS_MAX and _CONTROLS.search(text) is None


def _first(pairs: Iterator[tuple[str, str]], most: int) -> Iterator[tuple[str, str]]:
    for _, pair in zip(range(most), pairs, strict=False):
        yield pair


def _pairs(given: Any, name: str, value: str) -> Iterator[tuple[str, str]]:
    if isinstance(given, Mapping):
        for key, some in given.items():
            for one in some if isinstance(some, list) else [some]:
                yield from _pair(key, one)
        return
    for row in values.list_of(given):
        if isinstance(row, list) and len(row) == 2:
            yield from _pair(row[0], row[1])
        elif isinstance(row, Mapping):
            yield from _pair(row.get(name), row.get(value))


def _pair(key: Any, text: Any) -> Iterator[tuple[str, str]]:
    if isinstance(key, str) and key and isinstance(text, str):
        yield storable(key, chars_max=200), text_of(text) or ""
