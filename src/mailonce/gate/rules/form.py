"""The fingerprint of a form with files: what its parts say, whatever stands between them.

A client draws a new boundary for each attempt, so that two copies never have the same bytes. What
is not plainly such a form is left to be compared as bytes.
"""

import re
from collections.abc import Sequence
from hashlib import sha256

from mailonce.gate.rules.fingerprint import FIELD_CHARS_MAX, FIELDS_MAX

# Beyond it the form is compared as bytes.
PARTS_MAX = 1000
_FORM = re.compile(
    r"multipart/form-data\s*"
    r"(?P<before>(?:;\s*(?!boundary\b)[\w-]+=[^\s;\"]+\s*)*)"
    r";\s*boundary=(?:\"(?P<quoted>[^\"\\\r\n]{1,70})\"|(?P<plain>[^\s;\"]{1,70}))\s*"
    r"(?P<after>(?:;\s*(?!boundary\b)[\w-]+=[^\s;\"]+\s*)*)",
    re.IGNORECASE | re.ASCII,
)
# How far into a part's headers its name is looked for.
HEADER_BYTES_MAX = 4096
_NAME = re.compile(rb"\r\ncontent-disposition:[^\r\n]*?[;\s]name=\"([^\"]*)\"", re.IGNORECASE)


def of_form(content_types: Sequence[str], body: bytes) -> tuple[str, dict[str, str]] | None:
    """Hash a form, and each of its fields; None where the request is not plainly one.

    A boundary that also stands elsewhere is not plain: another reader may see other parts.
    """
    form = _FORM.fullmatch(content_types[0].strip()) if len(content_types) == 1 else None
    if form is None:
        return None
    boundary = (form["quoted"] or form["plain"]).encode("latin-1", "replace")
    first, *parts = (b"\r\n" + body).split(b"\r\n--" + boundary, PARTS_MAX + 2)
    if first or not parts or body.count(boundary) != len(parts):
        return None
    last = parts.pop()
    if last not in (b"--", b"--\r\n") or len(parts) > PARTS_MAX:
        return None
    if not all(part.startswith(b"\r\n") and b"\r\n\r\n" in part for part in parts):
        return None
    digests = [sha256(part).digest() for part in parts]
    others = f"{form['before']}{form['after']}".encode()
    whole = sha256(b"multipart/form-data" + others + b"".join(digests)).hexdigest()
    return whole, _fields(parts, digests)


def _fields(parts: Sequence[bytes], digests: Sequence[bytes]) -> dict[str, str]:
    """Hash what each name has; none where a name is too long, or there are too many."""
    by_name: dict[str, bytes] = {}
    for part, digest in zip(parts, digests, strict=True):
        named = _NAME.search(part, 0, min(part.index(b"\r\n\r\n"), HEADER_BYTES_MAX))
        if named is None or len(named[1]) > FIELD_CHARS_MAX:
            return {}
        name = named[1].decode("utf-8", "replace")
        by_name[name] = by_name.get(name, b"") + digest
    if len(by_name) > FIELDS_MAX:
        return {}
    return {name: sha256(value).hexdigest()[:16] for name, value in by_name.items()}
