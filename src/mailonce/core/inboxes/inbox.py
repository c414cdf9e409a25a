"""An inbox: an address that collects mail, for a time and within a quota."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from msgspec import Struct

from mailonce.core.mail.address import MailAddress
from mailonce.errors import RefusedError

TTL_S = 24 * 3600
TTL_S_MAX = 366 * 86_400
MAILS_MAX = 1_000
BYTES_MAX = 256 << 20


class Inbox(Struct, frozen=True, kw_only=True):
    """An inbox as it is kept. Times are unix milliseconds."""

    id: str
    workspace: str
    address: str
    created_ms: int
    # None: it stays until somebody deletes it.
    expires_ms: int | None = None
    metadata: Mapping[str, Any] = {}
    # The agent's key that made it; None: an operator did, for all agents of the workspace.
    agent: str | None = None
    mails_max: int = MAILS_MAX
    bytes_max: int = BYTES_MAX
    # The last number given, and how far mail was deleted: a cursor below that has lost some.
    seq: int = 0
    forgotten_seq: int = 0
    # What it holds now.
    mails: int = 0
    bytes: int = 0

    def has_ended(self, now_ms: int) -> bool:
        """Say whether its time is over, whether or not it was deleted since."""
        return self.expires_ms is not None and self.expires_ms <= now_ms

    def is_open_to(self, agent: str) -> bool:
        """Say whether an agent's key may expect mail here.

        An address is no secret: whoever could expect mail at another agent's would get its codes.
        """
        return self.agent is None or self.agent == agent


class InboxUse(NamedTuple):
    """How much mail an inbox holds."""

    mails: int
    bytes: int


class RefusalReason(StrEnum):
    """Why a mail is not taken for a recipient."""

    UNKNOWN = "unknown_recipient"
    EXPIRED = "expired"
    QUOTA = "quota"
    SIZE = "size"
    SYNTAX = "bad_address"
    # The SMTP door's own reasons.
    RATE = "rate"
    RECIPIENTS = "too_many_recipients"
    LINE_ENDINGS = "bare_line_ending"
    UNAVAILABLE = "unavailable"
    POLICY = "policy"


class RecipientRefusal(Struct, frozen=True, gc=False):
    """A refusal as SMTP says it: the reply code, the enhanced code, and one sentence."""

    code: int
    enhanced: str
    reason: RefusalReason
    text: str


class NoRoomError(RefusedError):
    """None of the inboxes has room for a mail."""

    code = "quota"

    def __init__(self, refusal: RecipientRefusal) -> None:
        """Say it as one of them does."""
        self.refusal = refusal
        super().__init__(refusal.text)


class KnownInbox(Struct, frozen=True, gc=False):
    """The inbox that an address of an envelope leads to."""

    id: str
    workspace: str
    # As the envelope has it, in the one spelling of `core/mail/address.py`.
    address: str


UNKNOWN = RecipientRefusal(
    550, "5.1.1", RefusalReason.UNKNOWN, "there is no such inbox; check the address"
)
BAD_ADDRESS = RecipientRefusal(
    553, "5.1.3", RefusalReason.SYNTAX, "this is no mail address; check how it is written"
)
EXPIRED = RecipientRefusal(
    550, "5.2.1", RefusalReason.EXPIRED, "this inbox has expired; ask for a new address"
)
FULL_OF_MAILS = RecipientRefusal(
    452, "4.2.2", RefusalReason.QUOTA, "this inbox is full; try again when mail was deleted"
)
TOO_LARGE_FOR_IT = RecipientRefusal(
    552, "5.2.2", RefusalReason.QUOTA, "this inbox has no room for a mail of this size"
)


def refusal_for(
    inbox: Inbox, *, size_bytes: int | None, now_ms: int, use: InboxUse | None = None
) -> RecipientRefusal | None:
    """Say why an inbox takes no further mail now; None where it does."""
    return EXPIRED if inbox.has_ended(now_ms) else quota_refusal(inbox, size_bytes or 0, use)


def quota_refusal(
    inbox: Inbox, size_bytes: int, use: InboxUse | None = None
) -> RecipientRefusal | None:
    """Say why an inbox has no room for a mail of this size; None where it has.

    `use` is what it holds by now, where more is known than it says itself.
    """
    mails, held_bytes = use or (inbox.mails, inbox.bytes)
    if size_bytes > inbox.bytes_max:
        return TOO_LARGE_FOR_IT
    if mails >= inbox.mails_max or held_bytes + size_bytes > inbox.bytes_max:
        return FULL_OF_MAILS
    return None


def spellings_of(address: MailAddress) -> tuple[str, ...]:
    """List the addresses by which an inbox may take a mail, the most exact first.

    Its own address, the same without its tag, and the domain's catch-all.
    """
    exact, base = str(address), str(address.untagged)
    catch_all = f"@{address.domain}"
    return (exact, catch_all) if exact == base else (exact, base, catch_all)
