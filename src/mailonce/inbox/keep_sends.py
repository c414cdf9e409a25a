"""Keep sends: with `--dev`, mail that is sent goes into inboxes here instead of out."""

from collections.abc import Awaitable, Callable

from mailonce.core.inboxes.inbox import KnownInbox, NoRoomError, RecipientRefusal
from mailonce.core.mail.incoming import IncomingMail, MailEnvelope, MimeContent
from mailonce.core.sends.sender import Sender
from mailonce.core.sends.sending import (
    Accepted,
    Correlation,
    Frozen,
    LookupOutcome,
    NotSent,
    SendFacts,
    Sending,
    SendOutcome,
    SmtpRequest,
    TryAgain,
)
from mailonce.errors import RefusedError, UnavailableError
from mailonce.inbox.accept import MailAcceptance

EVIDENCE = "kept in an inbox here, by --dev"
# As SMTP replies to what may be taken later.
LATER = range(400, 500)

# Gives the inbox of an address in a workspace, and makes it where there is none.
FindInbox = Callable[[str, str], Awaitable[KnownInbox | RecipientRefusal]]


class SendKeeper:
    """Takes the place of providers; nothing leaves the machine."""

    def __init__(self, acceptance: MailAcceptance, find: FindInbox) -> None:
        self._acceptance = acceptance
        self._find = find

    async def transmit(
        self,
        request: Frozen,
        sender: Sender,
        sending: Sending,
        *,
        may_begin: Callable[[], bool],
    ) -> SendOutcome:
        """Put a mail into its recipient's inbox.

        What failed may be tried again: the same bytes in the same inbox are one mail.
        """
        del sending, may_begin
        assert isinstance(request, SmtpRequest), "mail of --dev is built as for SMTP"
        try:
            place = await self._find(sender.workspace, request.rcpt_to)
            if isinstance(place, RecipientRefusal):
                is_later = place.code in LATER
                return TryAgain(reason=place.text) if is_later else NotSent(reason=place.text)
            envelope = MailEnvelope(
                mail_from=request.mail_from, recipients=(request.rcpt_to,), origin="provider"
            )
            mail = IncomingMail(envelope=envelope, content=MimeContent(request.message))
            await self._acceptance.accept(mail, [place])
        except UnavailableError as error:
            return TryAgain(reason=str(error))
        except NoRoomError as error:
            is_later = error.refusal.code in LATER
            return TryAgain(reason=str(error)) if is_later else NotSent(reason=str(error))
        except RefusedError as error:
            return NotSent(reason=str(error))
        return Accepted(message_id=None, evidence=EVIDENCE)

    async def look_up(
        self, correlation: Correlation, sender: Sender, sending: Sending, facts: SendFacts
    ) -> LookupOutcome | None:
        """Nobody can be asked; what a crash leaves unknown is seen in the inbox itself."""
        del self, correlation, sender, sending, facts
        return None
