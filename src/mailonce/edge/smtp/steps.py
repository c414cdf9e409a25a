"""What a connection must do after a command: answer with bytes, or one of these steps."""

from typing import NamedTuple

from mailonce.edge.connections import DoorRefusal
from mailonce.edge.smtp import replies


class CheckRecipient(NamedTuple):
    """Ask whether a recipient is ours; tell `recipient_known` or `recipient_refused`."""

    address: str
    size_bytes: int | None


class ReadMail(NamedTuple):
    """Read the mail that follows; tell `take_mail`, or `end_mail` where there is none."""


class BeginTls(NamedTuple):
    """Answer, and begin TLS."""


class HangUp(NamedTuple):
    """Send the last reply, and close."""

    reply: bytes
    refusal: DoorRefusal | None = None


Step = bytes | CheckRecipient | ReadMail | BeginTls | HangUp


def hang_up(refusal: DoorRefusal) -> HangUp:
    """Refuse to go on with a client."""
    return HangUp(replies.written(refusal), refusal)
