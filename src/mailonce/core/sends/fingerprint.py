"""The fingerprint of a send: what must be equal in a copy of the request.

Recipient, stream, template name and variables; without a template, the mail's own words. Never the
rendered copy, which may be improved between two tries, and never display names.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import orjson

from mailonce.core.events.key import Fingerprint
from mailonce.core.json_text import canonical
from mailonce.core.sends.send_request import Recipient, SendRequest

_DIGEST_CHARS = 16
_FINGERPRINT_BYTES = 16

# By field, as the caller names it: a digest of its value.
Parts = Mapping[str, str]


def parts_of(request: SendRequest, recipient: Recipient) -> dict[str, str]:
    """Give a digest of each field that counts, for one recipient's mail."""
    return parts_to(request, recipient, shared_parts(request))


def shared_parts(request: SendRequest) -> dict[str, str]:
    """Give a digest of each field that is the same for all recipients of a request."""
    values: dict[str, Any] = {"stream": request.stream}
    if request.template is None:
        values |= {"subject": request.subject, "text": request.text, "html": request.html}
        values["attachments"] = [
            [one.name, one.type, sha256(one.content).hexdigest()] for one in request.attachments
        ]
    else:
        values["template"] = request.template
    return {name: _digest(value) if value else _none(value) for name, value in values.items()}


def parts_to(request: SendRequest, recipient: Recipient, shared: Parts) -> dict[str, str]:
    """Add a digest of each field that is one recipient's own."""
    parts = {"to": _digest(recipient.address), **shared}
    if request.template is not None:
        parts["variables"] = _digest(request.variables_for(recipient))
    return parts


def fingerprint_of(parts: Parts) -> Fingerprint:
    return fingerprint_of_written(written_parts(parts))


def fingerprint_of_written(parts: bytes) -> Fingerprint:
    """Give the fingerprint of parts that were written."""
    return Fingerprint(sha256(parts).digest()[:_FINGERPRINT_BYTES])


def request_fingerprint(fingerprints: Sequence[Fingerprint]) -> Fingerprint:
    """Give the fingerprint of a request: that of all its mails, in whatever order they stand."""
    return Fingerprint(sha256(b"".join(sorted(fingerprints))).digest()[:_FINGERPRINT_BYTES])


def written_parts(parts: Parts) -> bytes:
    """Write the parts as the ledger keeps them."""
    return canonical(dict(parts))


def read_parts(kept: bytes) -> dict[str, str]:
    """Read parts that the ledger kept."""
    parts: dict[str, str] = orjson.loads(kept)
    return parts


def differing_fields(kept: bytes, given: bytes) -> list[str]:
    """Name the fields in which a request differs from the one whose parts were kept."""
    known, parts = read_parts(kept), read_parts(given)
    return sorted(
        name for name in known.keys() | parts.keys() if known.get(name) != parts.get(name)
    )


def _none(value: Any) -> str:
    """Give the digest of a field that is empty, of which each request has some."""
    return _NONE[value] if value is None or value == "" else _digest(value)


def _digest(value: Any) -> str:
    return sha256(canonical(value)).hexdigest()[:_DIGEST_CHARS]


_NONE = {value: _digest(value) for value in (None, "")}
