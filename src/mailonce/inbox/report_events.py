"""Events that are no mail: what a bounce reports about another, and a mail that was given up."""

from mailonce.core.arrivals.source import SMTP, SMTP_ACCOUNT
from mailonce.core.events.event import Bounce, Event, EventType
from mailonce.core.events.key import WHOLE, Identity
from mailonce.core.ids import public
from mailonce.core.inboxes.mail_items import MAIL_PREFIX
from mailonce.core.ledger.entry import EventOrigin
from mailonce.core.mail.digest import MailDigest
from mailonce.store.inboxes.messages import MailToRead

# Anybody can write a bounce, and have it sent to an inbox of a provider's hook: it is nobody's word
# but the mail's, and never joins what the provider of that hook has proven.
REPORTED = EventOrigin(SMTP, SMTP_ACCOUNT)
# What reports say about a mail that was sent before.
REPORTS = frozenset({"bounce", "delay", "delivery_report"})
ACTIONS = {
    "failed": EventType.BOUNCED,
    "delayed": EventType.DEFERRED,
    "delivered": EventType.DELIVERED,
}
BOUNCES = {"5.": Bounce.HARD, "4.": Bounce.SOFT}


def bounce_events(reading: MailDigest) -> list[Event]:
    """Make an event of each recipient that a bounce names, about the mail that bounced.

    Anybody can write a bounce, so none of these suppresses an address.
    """
    report = reading.report
    if report is None or report.kind not in REPORTS or not report.original_message_id:
        return []
    events: list[Event] = []
    for recipient in report.recipients:
        type_ = ACTIONS.get(recipient.action or "")
        if type_ is None or not recipient.address:
            continue
        events.append(
            Event(
                type=type_,
                identity=Identity(WHOLE, {}),
                message_id=report.original_message_id,
                recipient=recipient.address.lower(),
                bounce=_bounce(recipient.status) if type_ is EventType.BOUNCED else None,
                reason=recipient.diagnostic or recipient.status,
                certain=False,
            )
        )
    return events


def _bounce(status: str | None) -> Bounce:
    return BOUNCES.get((status or "")[:2], Bounce.UNDETERMINED)


def unread_event(mail: MailToRead, error: str) -> Event:
    """Tell routes of a mail that was accepted and could not be read; its bytes stay."""
    return Event(
        type=EventType.OTHER,
        identity=Identity(WHOLE, {}),
        provider_event_id=public(MAIL_PREFIX, mail.key),
        recipient=mail.address,
        occurred_ms=mail.made_ms,
        reason=f"the mail could not be read: {error}",
        metadata={"inbox": mail.inbox, "seq": mail.seq},
    )
