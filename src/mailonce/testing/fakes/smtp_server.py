"""A fake mail server: real SMTP on loopback, with a script and a log."""

import asyncio
import contextlib
import ssl
from base64 import b64decode
from collections import deque
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from enum import StrEnum
from types import TracebackType
from typing import Any, Self

from mailonce.testing.fakes.records import FakeMail, FakeMessage, check_recipient, check_step

LINE_BYTES_MAX = 64 << 20
# Errors of a broken connection, or of something that does not speak the protocol; and our own end.
BROKEN = (OSError, EOFError, ValueError, asyncio.LimitOverrunError, asyncio.CancelledError)


class SmtpAct(StrEnum):
    """What a fake does with one mail."""

    ACCEPT = "accept"
    # It has the mail, and answers when it is told to: `FakeSmtpServer.release`.
    ACCEPT_AND_WAIT = "accept_and_wait"
    # It has the mail, and the client does not hear of it.
    ACCEPT_AND_HANG = "accept_and_hang"
    ACCEPT_AND_BREAK = "accept_and_break"
    ACCEPT_AND_SHUT_DOWN = "accept_and_shut_down"
    # It does not have the mail, and says so.
    DEFER = "defer"
    REFUSE = "refuse"
    DEFER_RECIPIENT = "defer_recipient"
    REFUSE_RECIPIENT = "refuse_recipient"
    REFUSE_SENDER = "refuse_sender"
    # It goes away before the final dot, or after it without a word and without the mail.
    BREAK_BEFORE_BODY = "break_before_body"
    BREAK = "break"
    # It does not have the mail, and says nothing after the final dot.
    HANG = "hang"


@dataclass(frozen=True, slots=True)
class SmtpStep:
    """What happens to one mail, `delay_s` after its final dot."""

    act: SmtpAct = SmtpAct.ACCEPT
    delay_s: float = 0.0

    def __post_init__(self) -> None:
        check_step(self.act, self.delay_s, SmtpAct)


_RECIPIENT = {
    SmtpAct.DEFER_RECIPIENT: "450 4.2.0 greylisted",
    SmtpAct.REFUSE_RECIPIENT: "550 5.1.1 no such user",
}
_DOT = {
    SmtpAct.ACCEPT: "250 2.0.0 Ok: queued as {id}",
    SmtpAct.ACCEPT_AND_WAIT: "250 2.0.0 Ok: queued as {id}",
    SmtpAct.ACCEPT_AND_SHUT_DOWN: "421 4.3.2 shutting down",
    SmtpAct.DEFER: "451 4.3.0 try again later",
    SmtpAct.REFUSE: "554 5.7.1 rejected",
}


@dataclass
class _Envelope:
    sender: str = ""
    recipient: str = ""
    step: SmtpStep = SmtpStep()
    has_greeted: bool = False
    is_known: bool = False
    is_encrypted: bool = field(default=False)


class FakeSmtpServer:
    """A mail server.

    `commands` has every line that came, but for credentials; `messages` every mail that was
    accepted; `connections` how often somebody called. `steps` is what happens to the next mails.
    With `tls` it offers STARTTLS, or speaks TLS from the first byte where `is_implicit`; with a
    `password` it wants a login of the user `mail`.
    """

    def __init__(
        self, *, tls: ssl.SSLContext | None = None, is_implicit: bool = False, password: str = ""
    ) -> None:
        self.commands: list[str] = []
        self.messages: list[FakeMessage] = []
        self.steps: deque[SmtpStep] = deque()
        self._steps_to: dict[str, deque[SmtpStep]] = {}
        self.connections = 0
        self.extensions = ["SIZE 52428800", "8BITMIME", "SMTPUTF8"]
        self.logins = "PLAIN LOGIN"
        self.port = 0
        self._tls = tls
        self._is_implicit = is_implicit
        self._password = password
        self._loop: asyncio.AbstractEventLoop | None = None
        self._released = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._server = await asyncio.start_server(
            self._serve,
            "127.0.0.1",
            self.port,
            ssl=self._tls if self._is_implicit else None,
            limit=LINE_BYTES_MAX,
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop listening, and end what hangs."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def script(self, *acts: SmtpAct | SmtpStep, to: str | None = None) -> None:
        """Say what happens to the next mails, in their order; or to those for one recipient.

        Raises: ConfigError where a step is of another kind; then none of them is taken.
        """
        check_recipient(to)
        given = [act if isinstance(act, SmtpStep) else SmtpStep(act) for act in acts]
        steps = self.steps if to is None else self._steps_to.setdefault(to, deque())
        steps += given

    def release(self) -> None:
        """Answer the mails that wait for it; those that come later wait again.

        It may be called from another thread.
        """
        released, self._released = self._released, asyncio.Event()
        assert self._loop is not None, "it was not started"
        self._loop.call_soon_threadsafe(released.set)

    def sender_settings(self) -> dict[str, Any]:
        """Give the settings of a sender that uses this server."""
        tls = "none" if self._tls is None else "implicit" if self._is_implicit else "starttls"
        place = {"provider": "smtp", "host": "127.0.0.1", "port": self.port, "tls": tls}
        login = {"username": "mail", "password": self._password} if self._password else {}
        plain = {"options": {"plain_login": True}} if login and self._tls is None else {}
        return {**place, **login, **plain}

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "a connection is served by a task"
        self._tasks.add(task)
        self.connections += 1
        try:
            with contextlib.suppress(*BROKEN):
                await self._talk(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        envelope = _Envelope(is_encrypted=self._is_implicit, is_known=not self._password)
        _say(writer, "220 fake.example.com ESMTP")
        while line := (await reader.readuntil(b"\r\n")).decode().removesuffix("\r\n"):
            word = line.partition(" ")[0].upper()
            self.commands.append("AUTH" if word == "AUTH" else line)
            match word:
                case "EHLO" | "HELO":
                    envelope.has_greeted = True
                    _say(writer, *self._greeting(envelope))
                case "STARTTLS" if self._tls is not None and not envelope.is_encrypted:
                    _say(writer, "220 go ahead")
                    await writer.start_tls(self._tls)
                    envelope = _Envelope(is_encrypted=True, is_known=not self._password)
                case "AUTH":
                    envelope.is_known = await self._log_in(line, reader, writer)
                case "DATA" if envelope.recipient:
                    if not await self._take(envelope, reader, writer):
                        return
                    envelope.sender = envelope.recipient = ""
                case "QUIT":
                    _say(writer, "221 bye")
                    return
                case _:
                    _say(writer, self._reply(word, line, envelope))

    def _greeting(self, envelope: _Envelope) -> list[str]:
        words = list(self.extensions)
        if self._tls is not None and not envelope.is_encrypted:
            words.append("STARTTLS")
        if self._password and (self._tls is None or envelope.is_encrypted):
            words.append(f"AUTH {self.logins}")
        lines = ["fake.example.com", *words]
        return [*(f"250-{one}" for one in lines[:-1]), f"250 {lines[-1]}"]

    def _reply(self, word: str, line: str, envelope: _Envelope) -> str:
        match word:
            case "RSET":
                envelope.sender = envelope.recipient = ""
                return "250 2.0.0 Ok"
            case "MAIL" if not envelope.is_known:
                return "530 5.7.0 log in first"
            case "MAIL":
                envelope.step = self.steps.popleft() if self.steps else SmtpStep()
                if envelope.step.act is SmtpAct.REFUSE_SENDER:
                    return "550 5.7.1 not your address"
                envelope.sender = line.partition("<")[2].partition(">")[0]
                return "250 2.1.0 Ok"
            case "RCPT" if envelope.sender:
                recipient = line.partition("<")[2].partition(">")[0]
                if own := self._steps_to.get(recipient):
                    envelope.step = own.popleft()
                if envelope.step.act in _RECIPIENT:
                    return _RECIPIENT[envelope.step.act]
                envelope.recipient = recipient
                return "250 2.1.5 Ok"
            case "NOOP":
                return "250 2.0.0 Ok"
            case _:
                return "503 5.5.1 not now"

    async def _take(
        self, envelope: _Envelope, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Read a message, and do with it what the script says; False where the server goes."""
        _say(writer, "354 go ahead")
        step = envelope.step
        if step.act is SmtpAct.BREAK_BEFORE_BODY:
            return False
        lines = []
        while (line := await reader.readuntil(b"\r\n")) != b".\r\n":
            lines.append(line.removeprefix(b".") if line.startswith(b".") else line)
        await asyncio.sleep(step.delay_s)
        message_id = f"Q{len(self.messages) + 1}"
        if step.act.startswith("accept"):
            self.messages.append(_message(message_id, envelope, b"".join(lines)))
        if step.act is SmtpAct.ACCEPT_AND_WAIT:
            await self._released.wait()
        match step.act:
            case SmtpAct.ACCEPT_AND_HANG | SmtpAct.HANG:
                await reader.read()
                return False
            case SmtpAct.ACCEPT_AND_BREAK | SmtpAct.BREAK:
                return False
            case act:
                _say(writer, _DOT[act].format(id=message_id))
                return act is not SmtpAct.ACCEPT_AND_SHUT_DOWN

    async def _log_in(
        self, line: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        words = line.split(" ")
        if words[1] == "PLAIN":
            _, user, password = b64decode(words[2]).decode().split("\0")
        else:
            answers = []
            for question in ("334 VXNlcm5hbWU6", "334 UGFzc3dvcmQ6"):
                _say(writer, question)
                answers.append(b64decode(await reader.readuntil(b"\r\n")).decode())
            user, password = answers
        is_known = (user, password) == ("mail", self._password)
        _say(writer, "235 2.7.0 welcome" if is_known else "535 5.7.8 wrong password")
        return is_known


def _say(writer: asyncio.StreamWriter, *lines: str) -> None:
    writer.write("".join(f"{line}\r\n" for line in lines).encode())


def _message(id_: str, envelope: _Envelope, raw: bytes) -> FakeMessage:
    message = message_from_bytes(raw, policy=policy.default)
    mail = FakeMail(
        recipient=envelope.recipient,
        subject=str(message["subject"]),
        marks={name.lower(): str(value) for name, value in message.items()},
        message_id=str(message["message-id"]),
    )
    return FakeMessage(id=id_, mail=mail, body=raw)
