"""The content of one part: decoded once, for the text, the attachments and the fingerprint."""

from hashlib import sha256

from msgspec import Struct

from mailonce.core.mail.budget import DigestBudget
from mailonce.core.mail.mime.charset import DecodedText, decode_html, decode_text
from mailonce.core.mail.mime.file_name import clean_file_name
from mailonce.core.mail.mime.header_text import one_line
from mailonce.core.mail.mime.part_tree import MailPart
from mailonce.core.mail.mime.transfer_encoding import decode_transfer

CONTENT_ID_CHARS_MAX = 250
_EMPTY = sha256().digest()


class Leaf(Struct, frozen=True, kw_only=True, gc=False):
    """A part with content."""

    part: MailPart
    # Without its transfer encoding; empty where it was too large to decode.
    content: bytes
    sha256: bytes
    # Of text parts, their characters.
    decoded: DecodedText | None = None
    is_truncated: bool = False
    # Of a part that was too large to decode, the hash of its encoded bytes.
    undecoded_sha256: bytes | None = None

    @property
    def type(self) -> str:
        """The type that its sender declared."""
        return self.part.type


def read_leaf(part: MailPart, budget: DigestBudget) -> Leaf:
    """Decode a part, within what the budget has left."""
    if not budget.take_decoded(part.end - part.start):
        hashed = sha256(memoryview(part.raw)[part.start : part.end]).digest()
        return Leaf(part=part, content=b"", sha256=_EMPTY, undecoded_sha256=hashed)
    content = decode_transfer(part.encoded, part.transfer_encoding, budget)
    decoded: DecodedText | None = None
    is_truncated = False
    if part.type.startswith("text/"):
        shown = content[: budget.take_text(len(content))]
        is_truncated = len(shown) < len(content)
        decode = decode_html if part.type == "text/html" else decode_text
        decoded = decode(shown, part.parameters.get("charset"), budget)
    return Leaf(
        part=part,
        content=content,
        sha256=sha256(content).digest(),
        decoded=decoded,
        is_truncated=is_truncated,
    )


def file_name_of(part: MailPart, budget: DigestBudget) -> str | None:
    """Give the name under which a part can be saved."""
    name = part.disposition.parameters.get("filename") or part.parameters.get("name")
    return clean_file_name(name, budget) if name else None


def content_id_of(part: MailPart, budget: DigestBudget) -> str | None:
    """Give the id by which HTML refers to a part, without brackets."""
    value = part.fields.first("content-id")
    if not value:
        return None
    return one_line(value[:1_000], budget).strip("<> ")[:CONTENT_ID_CHARS_MAX] or None
