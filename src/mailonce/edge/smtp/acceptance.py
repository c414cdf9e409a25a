"""What stands behind the SMTP door: who takes mail, as the door sees it."""

from collections.abc import Callable, Sequence
from typing import Protocol

from mailonce.core.inboxes.inbox import KnownInbox, NoRoomError, RecipientRefusal, RefusalReason
from mailonce.core.mail.incoming import IncomingMail
from mailonce.edge.connections import DoorRefusal
from mailonce.edge.smtp import replies
from mailonce.errors import UnavailableError
from mailonce.pipeline.record import FullError
from mailonce.telemetry import UNEXPECTED, DoorMetrics, log

# Which of the reasons that an inbox's owner sees stands for a refusal of the door.
_REASONS = {
    "message_bytes": RefusalReason.SIZE,
    "quota": RefusalReason.QUOTA,
    "line_ending": RefusalReason.LINE_ENDINGS,
    "recipients": RefusalReason.RECIPIENTS,
    "address_mails": RefusalReason.RATE,
    "held_bytes": RefusalReason.UNAVAILABLE,
    "unavailable": RefusalReason.UNAVAILABLE,
    "full": RefusalReason.UNAVAILABLE,
    "store_timeout": RefusalReason.UNAVAILABLE,
    "stopping": RefusalReason.UNAVAILABLE,
}


class AcceptsMail(Protocol):
    """Knows the inboxes and stores mail; `inbox/accept.py` does."""

    async def check(
        self, address: str, *, size_bytes: int | None = None
    ) -> KnownInbox | RecipientRefusal:
        """Say which inbox takes mail for an address, or why none does."""
        ...

    def recall(
        self, address: str, *, size_bytes: int | None = None
    ) -> KnownInbox | RecipientRefusal | None:
        """Say what `check` would, where that is known already; else None."""
        ...

    def submit(
        self, mail: IncomingMail, inboxes: Sequence[KnownInbox], tell: Callable[[object], None]
    ) -> bool:
        """Take a mail as `accept` does, where nothing must be waited for first; say whether so.

        `tell` is called once, after this has returned: with an exception where the mail is not
        durable in all of its inboxes.
        """
        ...

    async def accept(self, mail: IncomingMail, inboxes: Sequence[KnownInbox]) -> object:
        """Store a mail in each of the inboxes; return once it is durable in all of them."""
        ...

    def note_refusal(
        self, address: str | None, refusal: RecipientRefusal, *, peer: str | None
    ) -> None:
        """Count a refusal where the owner of the inbox sees it."""
        ...


def concerns_owner(refusal: DoorRefusal) -> bool:
    """Say whether a mail was refused that the owner of an inbox may miss."""
    return refusal.reason in _REASONS


def for_owner(refusal: DoorRefusal) -> RecipientRefusal:
    """Say a refusal of the door as the owner of an inbox is told it."""
    enhanced, _, text = refusal.detail.partition(" ")
    reason = _REASONS.get(refusal.reason, RefusalReason.POLICY)
    return RecipientRefusal(refusal.code, enhanced, reason, text)


def refusal_of(error: Exception, metrics: DoorMetrics) -> DoorRefusal:
    """Count what went wrong behind the door, and say to a sender that it tries again later."""
    if isinstance(error, NoRoomError):
        refusal = error.refusal
        return DoorRefusal(refusal.code, "quota", f"{refusal.enhanced} {refusal.text}")
    metrics.count_unavailable(error)
    if isinstance(error, FullError):
        return replies.STORE_FULL
    if not isinstance(error, UnavailableError):
        log.error(UNEXPECTED, where="smtp", error=type(error).__name__, exc_info=error)
    return replies.NO_STORE
