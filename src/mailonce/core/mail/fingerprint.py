"""By what two copies of one mail are known, whichever way each of them came.

A fingerprint covers what its sender wrote, and nothing that carrying the mail changes: no trace
fields, no signatures of relays, no boundaries, no transfer encodings, no envelope. It is a hash
over a versioned sequence in which each value stands behind its length, so that no two sequences are
written alike. Mail whose bytes we never saw has a version of its own: its parts were read by a
provider, and a copy that came as bytes cannot be compared with them.
"""

import re
from collections.abc import Iterable, Sequence
from hashlib import sha256

from mailonce.core.mail.headers import MailHeaders
from mailonce.core.mail.incoming import FieldsContent
from mailonce.core.mail.leaf import Leaf

MIME_VERSION = b"mailonce.mime/1"
FIELDS_VERSION = b"mailonce.fields/1"
PIECE_BYTES = 1 << 20

_SPACES = re.compile(r"\s+")


def mime_fingerprint(headers: MailHeaders, leaves: Iterable[Leaf]) -> bytes:
    """Hash what makes a mail itself, from its own bytes."""
    values = _header_values(headers)
    for leaf in leaves:
        part = leaf.part
        content_id = (part.fields.first("content-id") or "").strip("<> ")
        values += [
            leaf.type.encode(),
            part.disposition.word.encode("utf-8", "surrogatepass"),
            content_id.encode("utf-8", "surrogatepass"),
            _leaf_hash(leaf),
        ]
    return _hash(MIME_VERSION, values)


def fields_fingerprint(headers: MailHeaders, content: FieldsContent) -> bytes:
    """Hash what makes a mail itself, from the fields that a provider read."""
    values = _header_values(headers)
    # A text that the provider made may change with the provider.
    text = "" if content.is_text_derived else content.text or ""
    values += [_text_hash(text), _text_hash(content.html or "")]
    for attachment in content.attachments:
        values += [
            attachment.type.lower().encode("utf-8", "surrogatepass"),
            (attachment.content_id or "").strip("<> ").encode("utf-8", "surrogatepass"),
            sha256(attachment.content).digest(),
        ]
    return _hash(FIELDS_VERSION, values)


def _header_values(headers: MailHeaders) -> list[bytes]:
    texts = [
        headers.message_id or "",
        "\n".join(one.address for one in headers.from_),
        "\n".join(sorted(one.address for one in (*headers.to, *headers.cc))),
        headers.date_raw or "",
        _SPACES.sub(" ", headers.subject or "").strip(),
    ]
    return [text.encode("utf-8", "surrogatepass") for text in texts]


def _leaf_hash(leaf: Leaf) -> bytes:
    """Hash content without what a relay may change in it: charset, line ends, trailing spaces."""
    if leaf.undecoded_sha256 is not None:
        return leaf.undecoded_sha256
    if not leaf.type.startswith(("text/", "message/")):
        return leaf.sha256
    if leaf.decoded is not None and leaf.decoded.is_exact and not leaf.is_truncated:
        return _text_hash(leaf.decoded.text)
    return _bytes_hash(leaf.content)


def _bytes_hash(content: bytes) -> bytes:
    """Hash bytes with LF for CRLF and without trailing spaces, a piece at a time."""
    hashed = sha256(b"bytes")
    tail = content[-PIECE_BYTES:]
    end = len(content) - len(tail) + len(tail.rstrip())
    at = 0
    while at < end:
        # A CR is not parted from its LF.
        stop = at + PIECE_BYTES + content.startswith(b"\n", at + PIECE_BYTES)
        hashed.update(content[at : min(stop, end)].replace(b"\r\n", b"\n"))
        at = stop
    return hashed.digest()


def _text_hash(text: str) -> bytes:
    # The CR before an LF is one of the spaces.
    lines = map(str.rstrip, text.split("\n"))
    return sha256("\n".join(lines).rstrip("\n").encode("utf-8", "surrogatepass")).digest()


def _hash(version: bytes, values: Sequence[bytes]) -> bytes:
    digest = sha256()
    for value in (version, *values):
        digest.update(len(value).to_bytes(8, "big"))
        digest.update(value)
    return digest.digest()
