"""What one client has said, and what it is answered: the states of SMTP, without a socket.

`hear` takes a line and gives the reply, or a step that the connection must take first: ask whether
a recipient is ours, read a mail, begin TLS, hang up. A transaction is what stands between MAIL and
the end of its mail; EHLO, RSET and TLS end it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

from mailonce.core.inboxes.inbox import KnownInbox
from mailonce.core.mail.incoming import IncomingMail, MailEnvelope, MimeContent
from mailonce.edge.connections import DoorRefusal
from mailonce.edge.smtp import command, replies, steps
from mailonce.edge.smtp.command import MailSender
from mailonce.edge.smtp.logins import Credentials, Logins, read_base64, read_plain
from mailonce.edge.smtp.steps import Step

HELO_BYTES_MAX = 255
_CONTROLS = bytes([*range(32), 127])
_OTHER_PROTOCOLS = frozenset({b"GET", b"POST", b"PUT", b"HEAD", b"OPTIONS", b"CONNECT", b"PRI"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the door offers and demands; see the settings of the same names."""

    hostname: str
    message_bytes_max: int
    recipients_max: int
    commands_max: int
    errors_max: int
    offers_tls: bool
    requires_tls: bool
    logins: Logins
    requires_auth: bool


class Listener(Protocol):
    """Who holds the conversation, and knows what depends on other clients."""

    def admit_mail(self) -> DoorRefusal | None:
        """Say why this client may send no further mail now, if it may not."""
        ...

    def admit_login(self) -> DoorRefusal | None:
        """Say why this client may not log in now, if it may not."""
        ...

    def count_wrong_login(self) -> None:
        """Count a wrong password."""
        ...

    def count_refusal(self, refusal: DoorRefusal, recipient: str | None = None) -> None:
        """Count a refusal."""
        ...


class Conversation:
    """The dialogue with one client."""

    def __init__(self, rules: Rules, listener: Listener) -> None:
        self._rules = rules
        self._listener = listener
        self.client_ip: str | None = None
        self._tls: str | None = None
        self._helo: str | None = None
        self._user: str | None = None
        self._commands = self._errors = 0
        # Whoever waits for the next line of AUTH.
        self._login: Callable[[bytes], Step] | None = None
        self._sender: MailSender | None = None
        self._refused_recipients = 0
        self.recipients: list[str] = []
        self.inboxes: list[KnownInbox] = []

    @property
    def greeting(self) -> bytes:
        return f"220 {self._rules.hostname} ESMTP mailonce\r\n".encode()

    def hear(self, line: bytes) -> Step:
        """Take a line, without its end; give the reply, or what must be done first."""
        self._commands += 1
        if self._commands > self._rules.commands_max:
            return steps.hang_up(replies.MANY_COMMANDS)
        if line.translate(None, _CONTROLS) != line:
            return self._refuse(replies.BAD_BYTES)
        if self._login is not None:
            login, self._login = self._login, None
            return login(line)
        verb, _, argument = line.partition(b" ")
        verb = verb.upper()
        handle = self._COMMANDS.get(verb)
        if handle is not None:
            return handle(self, argument)
        if verb in _OTHER_PROTOCOLS:
            return steps.hang_up(replies.NOT_SMTP)
        known = verb in {b"EXPN", b"ETRN", b"TURN", b"SEND", b"SOML", b"SAML", b"BDAT"}
        return self._refuse(replies.NOT_OFFERED if known else replies.UNKNOWN_COMMAND)

    def secured(self, version: str) -> None:
        """Begin anew under TLS: nothing that was said before counts (RFC 3207)."""
        self._tls = version
        self._helo = self._user = None
        self.end_mail()

    def recipient_known(self, address: str, inbox: KnownInbox) -> bytes:
        """Add a recipient that is ours."""
        self.recipients.append(address)
        if all(inbox.id != other.id for other in self.inboxes):
            self.inboxes.append(inbox)
        return replies.RECIPIENT_OK

    def recipient_refused(self, reply: bytes) -> Step:
        """Answer for a recipient that is not ours."""
        self._refused_recipients += 1
        return self._count_error(reply)

    def take_mail(self, raw: bytes) -> tuple[IncomingMail, list[KnownInbox]]:
        """End the transaction with its mail; give what is to be stored, and for whom."""
        assert self._sender is not None, "a mail has a sender"
        mail = IncomingMail(
            envelope=MailEnvelope(
                mail_from=self._sender.address,
                recipients=tuple(self.recipients),
                origin="smtp",
                helo=self._helo,
                client_ip=self.client_ip,
                tls=self._tls,
                user=self._user,
            ),
            content=MimeContent(raw),
        )
        inboxes = self.inboxes
        self.end_mail()
        return mail, inboxes

    def mail_accepted(self) -> None:
        """Forget the errors of a client that sends mail."""
        self._errors = 0

    def end_mail(self) -> None:
        """End the transaction."""
        self._sender = None
        self._refused_recipients = 0
        self.recipients, self.inboxes = [], []

    def _refuse(self, refusal: DoorRefusal, recipient: str | None = None) -> Step:
        self._listener.count_refusal(refusal, recipient)
        return self._count_error(replies.written(refusal))

    def _count_error(self, reply: bytes) -> Step:
        self._errors += 1
        if self._errors > self._rules.errors_max:
            return steps.hang_up(replies.MANY_ERRORS)
        return reply

    def _hear_hello(self, argument: bytes) -> bytes | None:
        name = argument.strip()
        if not name:
            return None
        self._helo = name[:HELO_BYTES_MAX].decode("utf-8", "replace")
        self.end_mail()
        return self._rules.hostname.encode()

    def _helo_command(self, argument: bytes) -> Step:
        name = self._hear_hello(argument)
        return self._refuse(replies.NAME_MISSING) if name is None else b"250 %b\r\n" % name

    def _ehlo(self, argument: bytes) -> Step:
        name = self._hear_hello(argument)
        if name is None:
            return self._refuse(replies.NAME_MISSING)
        rules = self._rules
        offers = [b"SIZE %d" % rules.message_bytes_max, b"8BITMIME", b"SMTPUTF8", b"PIPELINING"]
        if self._tls is None and rules.offers_tls:
            offers.append(b"STARTTLS")
        if self._tls is not None and rules.logins:
            offers.append(b"AUTH PLAIN LOGIN")
        lines = [name, *offers, b"ENHANCEDSTATUSCODES"]
        return b"".join(b"250-%b\r\n" % line for line in lines) + b"250 HELP\r\n"

    def _mail(self, argument: bytes) -> Step:
        rules = self._rules
        if self._helo is None:
            return self._refuse(replies.HELLO_FIRST)
        if rules.requires_tls and self._tls is None:
            return self._refuse(replies.TLS_FIRST)
        if rules.requires_auth and self._user is None:
            return self._refuse(replies.LOGIN_FIRST)
        if self._sender is not None:
            return self._refuse(replies.SENDER_TWICE)
        sender = command.read_sender(argument, offers_auth=bool(rules.logins))
        if isinstance(sender, DoorRefusal):
            return self._refuse(sender)
        refusal = self._listener.admit_mail()
        if refusal is not None:
            return self._refuse(refusal)
        self._sender = sender
        return replies.SENDER_OK

    def _rcpt(self, argument: bytes) -> Step:
        sender = self._sender
        if sender is None:
            return self._refuse(replies.SENDER_FIRST)
        address = command.read_recipient(argument, is_utf8=sender.is_utf8)
        if isinstance(address, DoorRefusal):
            return self._refuse(address)
        if len(self.recipients) >= self._rules.recipients_max:
            return self._refuse(replies.MANY_RECIPIENTS, address)
        if sender.size_bytes is not None and sender.size_bytes > self._rules.message_bytes_max:
            # Not before: the owner of the inbox must see what was refused to it.
            self._refused_recipients += 1
            return self._refuse(replies.LARGE_MAIL, address)
        return steps.CheckRecipient(address, sender.size_bytes)

    def _data(self, argument: bytes) -> Step:
        if argument.strip():
            return self._refuse(replies.NO_ARGUMENT)
        if self._sender is None:
            return self._refuse(replies.SENDER_FIRST)
        if not self.inboxes:
            refused = self._refused_recipients
            return self._refuse(replies.NO_RECIPIENT if refused else replies.RECIPIENT_FIRST)
        return steps.ReadMail()

    def _starttls(self, argument: bytes) -> Step:
        if argument.strip():
            return self._refuse(replies.NO_ARGUMENT)
        if self._tls is not None:
            return self._refuse(replies.TLS_TWICE)
        if not self._rules.offers_tls:
            return self._refuse(replies.TLS_AWAY)
        return steps.BeginTls()

    def _auth(self, argument: bytes) -> Step:
        rules = self._rules
        if not rules.logins:
            return self._refuse(replies.NOT_OFFERED)
        if self._helo is None:
            return self._refuse(replies.HELLO_FIRST)
        if self._tls is None:
            return self._refuse(replies.LOGIN_NEEDS_TLS)
        if self._user is not None:
            return self._refuse(replies.LOGIN_TWICE)
        if self._sender is not None:
            return self._refuse(replies.NOT_IN_MAIL)
        mechanism, _, initial = argument.strip().partition(b" ")
        match mechanism.upper():
            case b"PLAIN":
                return self._ask(replies.EMPTY_CHALLENGE, self._plain, initial)
            case b"LOGIN":
                return self._ask(replies.ASK_USER, self._login_user, initial)
            case _:
                return self._refuse(replies.STRANGE_MECHANISM)

    def _ask(self, challenge: bytes, then: Callable[[bytes], Step], initial: bytes = b"") -> Step:
        if initial:
            return then(initial)
        self._login = then
        return challenge

    def _plain(self, response: bytes) -> Step:
        return self._log_in(None if response == b"*" else read_plain(response), response)

    def _login_user(self, response: bytes) -> Step:
        user = read_base64(response)
        if user is None or response == b"*":
            return self._log_in(None, response)

        def with_password(line: bytes) -> Step:
            password = read_base64(line)
            return self._log_in(None if password is None else Credentials(user, password), line)

        return self._ask(replies.ASK_PASSWORD, with_password)

    def _log_in(self, given: Credentials | None, response: bytes) -> Step:
        if given is None:
            cancelled = response == b"*"
            return self._refuse(replies.LOGIN_CANCELLED if cancelled else replies.BAD_LOGIN)
        # Asked first: whoever guesses must not learn which password would have been right.
        refusal = self._listener.admit_login()
        if refusal is not None:
            return steps.hang_up(refusal)
        if self._rules.logins.match(given):
            self._user = given.user
            return replies.LOGGED_IN
        self._listener.count_wrong_login()
        return self._refuse(replies.WRONG_LOGIN)

    def _rset(self, argument: bytes) -> Step:
        if argument.strip():
            return self._refuse(replies.NO_ARGUMENT)
        self.end_mail()
        return replies.OK

    def _noop(self, argument: bytes) -> Step:
        del argument
        return replies.OK

    def _vrfy(self, argument: bytes) -> Step:
        del argument
        return replies.VERIFY

    def _help(self, argument: bytes) -> Step:
        del argument
        return replies.HELP

    def _quit(self, argument: bytes) -> Step:
        del argument
        return steps.HangUp(replies.GOODBYE)

    _COMMANDS: ClassVar[dict[bytes, Callable[["Conversation", bytes], Step]]] = {
        b"HELO": _helo_command,
        b"EHLO": _ehlo,
        b"MAIL": _mail,
        b"RCPT": _rcpt,
        b"DATA": _data,
        b"RSET": _rset,
        b"NOOP": _noop,
        b"VRFY": _vrfy,
        b"HELP": _help,
        b"QUIT": _quit,
        b"STARTTLS": _starttls,
        b"AUTH": _auth,
    }
