"""Put a mail into an inbox by hand: it is accepted and recorded as one that came over SMTP."""

from mailonce.core.inboxes.inbox import Inbox, RecipientRefusal, RefusalReason
from mailonce.core.mail.address import read_address
from mailonce.core.mail.incoming import IncomingMail, MailEnvelope, MimeContent
from mailonce.errors import ParseError, RefusedError, SizeError
from mailonce.inbox.accept import AcceptedMail, MailAcceptance


async def put_mail(
    acceptance: MailAcceptance,
    inbox: Inbox,
    raw: bytes,
    *,
    recipient: str | None = None,
    mail_from: str | None = None,
) -> AcceptedMail:
    """Accept a mail for one address of an inbox; the same bytes again are a copy of it.

    Raises: ParseError where the recipient is none of this inbox, RefusedError where it is full.
    """
    if not raw.strip():
        raise ParseError("the body is empty; send the mail itself, with its headers")
    to = recipient if recipient is not None and read_address(recipient) else inbox.address
    if to.startswith("@"):
        raise ParseError("this inbox has all addresses of its domain; name one of them with `to`")
    place = await acceptance.check(to, size_bytes=len(raw))
    if isinstance(place, RecipientRefusal):
        acceptance.note_refusal(to, place)
        is_size = place.reason is RefusalReason.QUOTA and place.code == 552
        raise (SizeError if is_size else RefusedError)(place.text)
    if place.id != inbox.id:
        raise ParseError("`to` leads to another inbox; use one of this inbox's own addresses")
    # Who may call this names the recipient as a provider's envelope does.
    envelope = MailEnvelope(mail_from=mail_from, recipients=(to,), origin="provider")
    return await acceptance.accept(
        IncomingMail(envelope=envelope, content=MimeContent(raw)), [place]
    )
