"""One SMTP session on a socket: lines to replies, mails to the store.

While a recipient is looked up or a mail is stored, what follows waits unread. A mail is handed on
when its last byte is there, and answered when it is durable; what becomes of the connection
meanwhile does not matter to it:

- The client hangs up before the reply: the mail stands. The sender tries again, and its copy is
  known as one.
- We crash before the commit: nothing stands, and the sender was told nothing. It tries again.
- Storing takes too long: the sender hears "later", the mail may stand, its copy is known.

Its bytes stay counted against the limit of all sessions until it is stored or refused.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import assert_never

from mailonce.core.inboxes.inbox import KnownInbox, RecipientRefusal
from mailonce.core.mail.incoming import IncomingMail, MailEnvelope
from mailonce.edge.connections import DoorRefusal
from mailonce.edge.smtp import replies, steps
from mailonce.edge.smtp.acceptance import concerns_owner, for_owner, refusal_of
from mailonce.edge.smtp.conversation import Conversation
from mailonce.edge.smtp.intake import BUSY, COMMAND, DATA, Intake
from mailonce.edge.smtp.limits import Rate
from mailonce.edge.smtp.mail_data import MailData
from mailonce.edge.smtp.parts import SmtpParts
from mailonce.edge.smtp.steps import CheckRecipient, Step


class SmtpProtocol(Intake):
    """One session."""

    def __init__(self, parts: SmtpParts, *, begins_with_tls: bool = False) -> None:
        super().__init__(
            parts.connections, parts.certificate, parts.proxy_peers, begins_with_tls=begins_with_tls
        )
        self._parts = parts
        self._talk = Conversation(parts.rules, self)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, unless there are too many."""
        self._parts.sessions.add(self)
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a client that has gone; what is being stored is stored."""
        super().connection_lost(exc)
        self._parts.sessions.discard(self)

    @property
    def is_stopping(self) -> bool:
        """Whether the door takes no further mail."""
        return self._parts.is_stopping

    def check_connects(self) -> DoorRefusal | None:
        """Say whether this address may connect so often, and whether anybody may."""
        if self._parts.is_stopping:
            return replies.STOPPING
        return replies.MANY_CONNECTS if self._is_often(self._parts.connects) else None

    def greet(self) -> None:
        self._talk.client_ip = self.client_ip
        self.since = self._loop.time()
        self.write(self._talk.greeting)

    def secured(self, version: str) -> None:
        self._talk.secured(version)
        self.since = self._loop.time()

    def hear(self, line: bytes, out: list[bytes]) -> None:
        """Take a command."""
        self._do(self._talk.hear(line), out)

    def _do(self, step: Step, out: list[bytes]) -> None:
        match step:
            case bytes():
                out.append(step)
            case CheckRecipient():
                self._check_recipient(step, out)
            case steps.ReadMail():
                self._begin_data(out)
            case steps.BeginTls():
                self._begin_tls(out)
            case steps.HangUp(reply=reply, refusal=refusal):
                self.hang_up(b"".join([*out, reply]), refusal)
            case _:
                assert_never(step)

    def hang_up(self, reply: bytes, refusal: DoorRefusal | None = None) -> None:
        """Send the last reply and close; the owners of inboxes learn what became of a mail."""
        if refusal is not None and self.data is not None:
            self._note(refusal)
        super().hang_up(reply, refusal)

    def _begin_tls(self, out: list[bytes]) -> None:
        # What came before the handshake came from anybody on the way (CVE-2011-0411).
        if self.has_more:
            self.end(out, replies.EARLY_BYTES)
            return
        self.write(b"".join(out) + replies.TLS_READY)
        out.clear()
        self.begin_tls()

    def _begin_data(self, out: list[bytes]) -> None:
        if self.has_more:
            # Whoever does not wait for the reply cannot know whether this is a mail or commands.
            self._note(replies.EARLY_BYTES)
            self.end(out, replies.EARLY_BYTES)
            return
        self.phase = DATA
        self.data = MailData(
            mail_bytes_max=self.limits.message_bytes_max,
            line_bytes_max=self.limits.data_line_bytes_max,
        )
        out.append(replies.SEND_DATA)

    def mail_ended(self, data: MailData, out: list[bytes]) -> None:
        """Store a mail that came whole, or say why not."""
        if data.problem is not None:
            self._note(data.problem)
            self._all.count(data.problem)
            self._parts.metrics.refused.inc()
            self._talk.end_mail()
            out.append(replies.written(data.problem))
            return
        # Stays counted until it is stored, whether or not the client waits for that.
        held = self.hand_on(data)
        mail, inboxes = self._talk.take_mail(data.take())
        self.phase = BUSY
        self._parts.storing += 1
        tell = partial(self._stored, mail.envelope, held, self._loop.time())
        try:
            if not self._parts.mail.submit(mail, inboxes, tell):
                self._parts.start(self._store(mail, inboxes, tell))
        except Exception as error:  # noqa: BLE001 - an outermost loop: the sender tries again
            self._loop.call_soon(tell, error)

    def _check_recipient(self, step: CheckRecipient, out: list[bytes]) -> None:
        verdict = self._parts.mail.recall(step.address, size_bytes=step.size_bytes)
        if verdict is None:
            self.phase = BUSY
            self._parts.start(self._look_up(step))
        else:
            self._do(self._judge(step.address, verdict), out)

    async def _look_up(self, step: CheckRecipient) -> None:
        """Find out whether a recipient is ours, and answer."""
        verdict: KnownInbox | RecipientRefusal
        try:
            verdict = await self._parts.mail.check(step.address, size_bytes=step.size_bytes)
        except Exception as error:  # noqa: BLE001 - an outermost loop: the sender tries again
            verdict = for_owner(refusal_of(error, self._parts.metrics.door))
        self._answer(self._judge(step.address, verdict))

    def _judge(self, address: str, verdict: KnownInbox | RecipientRefusal) -> Step:
        """Say what is answered for a recipient; whose inbox it is learns of a refusal."""
        match verdict:
            case KnownInbox():
                return self._talk.recipient_known(address, verdict)
            case RecipientRefusal(code=code, enhanced=enhanced, text=text):
                self._parts.mail.note_refusal(address, verdict, peer=self.client_ip)
                self._parts.metrics.recipient_refused(str(verdict.reason))
                return self._talk.recipient_refused(replies.plain_line(code, enhanced, text))
            case _:
                assert_never(verdict)

    async def _store(
        self, mail: IncomingMail, inboxes: list[KnownInbox], tell: Callable[[object], None]
    ) -> None:
        try:
            result = await self._parts.mail.accept(mail, inboxes)
        except Exception as error:  # noqa: BLE001 - an outermost loop: the sender tries again
            result = error
        tell(result)

    def _stored(self, envelope: MailEnvelope, held: int, began_at: float, result: object) -> None:
        """Answer for a mail, now that it is durable or is not."""
        self._parts.storing -= 1
        self._all.release(held)
        if isinstance(result, Exception):
            refusal = refusal_of(result, self._parts.metrics.door)
            self._all.count(refusal)
            self._parts.metrics.refused.inc()
            self._note(refusal, envelope.recipients)
            reply = replies.written(refusal)
        else:
            self._talk.mail_accepted()
            self._parts.metrics.stored(held, self._loop.time() - began_at)
            reply = replies.MAIL_OK
        self._answer(reply)

    def _answer(self, step: Step) -> None:
        """Say what was waited for, and go on with what came meanwhile."""
        if self.is_done:
            return
        self.phase = COMMAND
        self.since = self._loop.time()
        out: list[bytes] = []
        self._do(step, out)
        if not self.is_done:
            self.go_on(out)

    def _note(self, refusal: DoorRefusal, recipients: Sequence[str] | None = None) -> None:
        """Tell the owners of the inboxes that a mail for them was refused."""
        who = self._talk.recipients if recipients is None else recipients
        self._parts.note(refusal, who, self.client_ip)

    def admit_mail(self) -> DoorRefusal | None:
        """Say why this client may send no further mail now, if it may not."""
        if self._is_often(self._parts.mails):
            return replies.MANY_MAILS
        is_full = self._all.held_bytes >= self.limits.held_bytes_max
        return replies.NO_MEMORY if is_full else None

    def _is_often(self, rate: Rate) -> bool:
        return rate.exceeds(self.address, self._loop.time())

    def admit_login(self) -> DoorRefusal | None:
        """Say why this client may not log in now, if it may not."""
        wrong, now = self._parts.wrong_logins, self._loop.time()
        return None if wrong.has_room(self.address, now) else replies.MANY_LOGINS

    def count_wrong_login(self) -> None:
        """Count a wrong password."""
        self._parts.wrong_logins.exceeds(self.address, self._loop.time())

    def count_refusal(self, refusal: DoorRefusal, recipient: str | None = None) -> None:
        """Count a refusal, also where the owner of an inbox sees it."""
        self._all.count(refusal)
        if concerns_owner(refusal):
            self._parts.note(refusal, [recipient], self.client_ip)
