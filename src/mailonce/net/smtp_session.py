"""An SMTP session: greeting, encryption, login, and one mail after the other.

Whatever stops a mail before its final dot is raised as `StoppedError`, with the outcome that it
has: the server does not have the mail. Time limits are the caller's.
"""

import re
import ssl
from base64 import b64encode
from collections.abc import Mapping

from mailonce.core.sends import answers
from mailonce.core.sends.sender import Sender, Tls
from mailonce.core.sends.sending import Fault, NotSent, SmtpRequest, TryAgain
from mailonce.net.smtp_connection import SmtpConnection, SmtpReply

_PATH = re.compile(r"[^\x00-\x1f\x7f<>]{1,320}")
_HELO = re.compile(r"[A-Za-z0-9.:\[\]-]{1,255}")
# Login is wanted, or was refused.
_LOGIN_CODES = frozenset({530, 534, 535, 538})
_TOO_LARGE = 552


class StoppedError(Exception):
    """The mail goes no further, with this outcome; no final dot was sent."""

    def __init__(self, outcome: NotSent | TryAgain) -> None:
        super().__init__(outcome.reason)
        self.outcome = outcome


class SmtpSession:
    """A connection over which mails can be sent, made by `open_session`."""

    def __init__(self, connection: SmtpConnection, extensions: Mapping[str, str]) -> None:
        self.connection = connection
        self._extensions = extensions
        self._is_begun = False
        # How many mails it has carried, and since when it waits for another one.
        self.mails = 0
        self.idle_since_s = 0.0

    async def begin(self, request: SmtpRequest) -> None:
        """Name sender and recipient, up to the point where the server wants the message.

        Raises: StoppedError, SmtpBrokenError.
        """
        _check_lines(request.message)
        if self._is_begun:
            _expect(await self.connection.command("RSET"), 250, "RSET")
        self._is_begun = True
        self.mails += 1
        reply = await self.connection.command(
            f"MAIL FROM:<{_path(request.mail_from)}>{self._more(request)}"
        )
        fault = Fault.MESSAGE if reply.code == _TOO_LARGE else Fault.SENDER
        _expect(reply, 250, "MAIL", fault)
        reply = await self.connection.command(f"RCPT TO:<{_path(request.rcpt_to)}>")
        if reply.code not in {251, 252}:
            _expect(reply, 250, "RCPT")
        _expect(await self.connection.command("DATA"), 354, "DATA")

    async def send_body(self, message: bytes) -> None:
        """Send the message without its final dot, and wait until its last byte has left.

        Raises: SmtpBrokenError.
        """
        body = message.replace(b"\r\n.", b"\r\n..")
        if body.startswith(b"."):
            body = b"." + body
        await self.connection.send(body if body.endswith(b"\r\n") else body + b"\r\n")

    async def end_body(self) -> SmtpReply:
        """Send the final dot, and wait for the reply that decides; there is no way back.

        Raises: SmtpBrokenError.
        """
        reply = await self.connection.ask(b".\r\n")
        self._is_begun = False
        return reply

    def _more(self, request: SmtpRequest) -> str:
        """Give the parameters of MAIL: how large the mail is, and which scripts it is in."""
        more = f" SIZE={len(request.message)}" if "SIZE" in self._extensions else ""
        is_ascii = request.message.isascii() and (request.mail_from + request.rcpt_to).isascii()
        if is_ascii:
            return more
        if "SMTPUTF8" not in self._extensions:
            raise StoppedError(
                NotSent(reason="the mail server takes no addresses in other scripts (SMTPUTF8)")
            )
        return (
            f"{more} BODY=8BITMIME SMTPUTF8"
            if "8BITMIME" in self._extensions
            else f"{more} SMTPUTF8"
        )


async def open_session(
    connection: SmtpConnection, sender: Sender, tls: ssl.SSLContext | None
) -> SmtpSession:
    """Greet the server, encrypt where a context is given for that, and log in.

    Raises: StoppedError, SmtpBrokenError, OSError where encryption fails.
    """
    _expect(await connection.greeting(), 220, "the greeting", Fault.SENDER)
    extensions = await _greet(connection, sender)
    if tls is not None:
        if "STARTTLS" not in extensions:
            login = " with `options = {plain_login = true}`" if sender.username else ""
            raise _misconfigured(f"does not offer STARTTLS; set `tls` to implicit, or none{login}")
        _expect(await connection.command("STARTTLS"), 220, "STARTTLS", Fault.SENDER)
        await connection.start_tls(tls, sender.host)
        # What was said in plain text could be anybody's.
        extensions = await _greet(connection, sender)
    if sender.username:
        await _log_in(connection, sender, extensions.get("AUTH", "").upper().split())
    return SmtpSession(connection, extensions)


async def _greet(connection: SmtpConnection, sender: Sender) -> dict[str, str]:
    """Say who we are, and hear what the server can do."""
    name = sender.options.get("helo") or connection.own_address
    if not isinstance(name, str) or not _HELO.fullmatch(name):
        raise _misconfigured("cannot be greeted by the name in the option `helo`; correct it")
    reply = await connection.command(f"EHLO {name}")
    if 500 <= reply.code < 600 and sender.tls is not Tls.STARTTLS and not sender.username:
        _expect(await connection.command(f"HELO {name}"), 250, "HELO", Fault.SENDER)
        return {}
    _expect(reply, 250, "EHLO", Fault.SENDER)
    words = (line.replace("=", " ", 1).partition(" ") for line in reply.lines[1:])
    return {word.upper(): rest for word, _, rest in words}


async def _log_in(connection: SmtpConnection, sender: Sender, offered: list[str]) -> None:
    user, word = sender.username.encode(), sender.password.encode()
    if "PLAIN" in offered:
        proof = b64encode(b"\0" + user + b"\0" + word).decode()
        reply = await connection.command(f"AUTH PLAIN {proof}")
    elif "LOGIN" in offered:
        reply = await connection.command("AUTH LOGIN")
        for part in (user, word):
            _expect(reply, 334, "AUTH", Fault.SENDER)
            reply = await connection.command(b64encode(part).decode())
    else:
        raise _misconfigured("offers no login by PLAIN or LOGIN over this connection")
    _expect(reply, 235, "AUTH", Fault.SENDER)


def _expect(reply: SmtpReply, code: int, step: str, fault: Fault = Fault.MESSAGE) -> None:
    """Go on after the right reply; stop after any other."""
    if reply.code == code:
        return
    # A reply to AUTH may repeat what we said, so its text is not kept.
    text = f"{reply.code}" if step == "AUTH" else answers.short(reply.text)
    reason = f"{step} was answered {text}"
    if 500 <= reply.code < 600:
        blames = Fault.SENDER if reply.code in _LOGIN_CODES else fault
        raise StoppedError(NotSent(reason=reason, fault=blames))
    raise StoppedError(TryAgain(reason=reason))


def _misconfigured(what: str) -> StoppedError:
    return StoppedError(NotSent(reason=f"the mail server {what}", fault=Fault.SENDER))


def _check_lines(message: bytes) -> None:
    """Refuse line ends by which some servers would read a second mail out of this one."""
    if not message.count(b"\r\n") == message.count(b"\n") == message.count(b"\r"):
        raise StoppedError(NotSent(reason="the message has line ends that are not CRLF"))


def _path(address: str) -> str:
    if not _PATH.fullmatch(address):
        raise StoppedError(NotSent(reason="an address cannot be written into SMTP; correct it"))
    return address
