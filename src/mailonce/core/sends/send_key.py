"""The key of a send: one logical mail has one, whoever asks for it and however often."""

from urllib.parse import quote
from uuid import UUID

from msgspec import Struct

from mailonce.core.bounds import is_storable
from mailonce.core.events.key import Key
from mailonce.core.sends.sending import correlation_bytes
from mailonce.errors import ParseError

KEY_CHARS_MAX = 256
# A cause, a stream and a template's name, each with what `quote` makes of it.
_PART_CHARS_MAX = 200


class SendKey(Struct, frozen=True):
    """The name of a logical mail: given by the caller, or derived from what causes the mail.

    A given key stands for one request with all its recipients. A derived one stands for a cause,
    a stream and a template, so that further recipients of the same cause are further mails.
    """

    text: str
    is_given: bool

    def recipient_key(self, recipient: str) -> str:
        """Give the key of one recipient's mail; `recipient` is a bare address, casefolded."""
        kind = "key" if self.is_given else "cause"
        return f"{kind}|{len(self.text)}|{self.text}|{recipient}"

    def request_key(self) -> str:
        """Give the key of the whole request."""
        assert self.is_given, "a derived key names no request"
        return f"request|{self.text}"


def given_key(text: str) -> SendKey:
    """Take a key that the caller made before the first try.

    Raises: ParseError where it cannot be one.
    """
    if not text or len(text) > KEY_CHARS_MAX or not text.isprintable() or not is_storable(text):
        raise ParseError(
            f"`Idempotency-Key` has 1 to {KEY_CHARS_MAX} printable characters; correct it"
        )
    return SendKey(text, is_given=True)


def derived_key(*, cause_id: str, stream: str, template: str) -> SendKey:
    """Make a key of the cause, the stream and the template's name: never of copy or of names.

    Two templates of one cause are two mails.
    Raises: ParseError where one of them is too long.
    """
    parts = (cause_id, stream, template)
    if any(len(part) > _PART_CHARS_MAX for part in parts):
        raise ParseError(
            f"`cause_id`, `stream` and `template` have at most {_PART_CHARS_MAX} characters each"
        )
    # Quoted, so that no two triples make the same text.
    return SendKey("|".join(quote(part, safe="/:@ ") for part in parts), is_given=False)


def work_key(workspace: str, key: str) -> Key:
    """Give the sixteen bytes by which the ledger knows a key; as a UUID they go to providers."""
    return Key(correlation_bytes(workspace, key))


def uuid_text(key: bytes) -> str:
    """Write the ledger's key as the UUID that providers bring back."""
    text = bytes(key).hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def key_of_uuid(text: str) -> Key | None:
    """Read a UUID that came back; None where it is none."""
    try:
        return Key(UUID(text).bytes)
    except ValueError:
        return None
