"""The SMTP client: one mail for each final dot, and of each it is said what became of it.

Up to the final dot nothing is sent: whatever goes wrong before it, the server may not deliver what
it got (RFC 5321, 4.1.1.4). So the body leaves first, to its last byte, and the dot follows alone.
From then on only the server's reply tells, for which the standard allows ten minutes:

| reply to the dot    | outcome                                                      |
|---------------------|--------------------------------------------------------------|
| 2xx                 | accepted: the mail is the server's now                       |
| 4xx, 5xx            | not sent; try again, or final                                |
| 421, none, nonsense | unknown: it may have been stored before the server went away |

A session that ended its mail properly is kept for the next one of the same sender, for some
seconds. That is safe here, unlike with HTTP: where it turns out to be dead, no dot was sent on it,
and the mail goes over a new one. Nothing is pipelined, so a reply always belongs to one command.
"""

import asyncio
import ssl
import time
from collections import deque
from collections.abc import Callable, Hashable
from functools import cached_property

from mailonce.core.sends import answers
from mailonce.core.sends.sender import SMTP_BODY_S, Sender, Tls
from mailonce.core.sends.sending import (
    Accepted,
    Fault,
    NotSent,
    SendOutcome,
    SmtpRequest,
    TryAgain,
    Unknown,
)
from mailonce.errors import RefusedError
from mailonce.net import address_guard
from mailonce.net.dialer import Dialer
from mailonce.net.smtp_connection import SmtpBrokenError, SmtpConnection, SmtpReply
from mailonce.net.smtp_session import SmtpSession, StoppedError, open_session

PORTS = {Tls.STARTTLS: 587, Tls.IMPLICIT: 465, Tls.NONE: 25}
# Servers wait for minutes; a sender that is busy needs no more than this.
IDLE_S = 10.0
SWEEP_S = 2.0
SESSION_MAILS_MAX = 100
SESSIONS_KEPT_MAX = 256

_SERVICE_ENDS = 421
TOO_LATE = "the process stood still before the final dot; nothing was sent"


class SmtpClient:
    """Sends mail over guarded connections; `monotonic` is the clock of idle sessions."""

    def __init__(self, dialer: Dialer, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._dialer = dialer
        self._monotonic = monotonic
        self._idle: dict[Hashable, deque[SmtpSession]] = {}
        self._idle_count = 0
        self._sweep: asyncio.TimerHandle | None = None

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """Made when it is first needed: loading the authorities takes a while."""
        return self._dialer.tls()

    async def send(
        self,
        request: SmtpRequest,
        sender: Sender,
        *,
        may_begin: Callable[[], bool] = lambda: True,
    ) -> SendOutcome:
        """Send one mail, once; `may_begin` is asked right before its final dot."""
        session = self._take(sender)
        if session is not None:
            try:
                await self._begin(session, request, sender)
            except StoppedError as stop:
                if session.connection.is_usable:
                    self._keep(session, sender)
                    return stop.outcome
            except (SmtpBrokenError, OSError, TimeoutError):
                pass
            else:
                return await self._finish(session, sender, may_begin)
        try:
            session = await self._open(sender)
            await self._begin(session, request, sender)
        except StoppedError as stop:
            if session is not None and session.connection.is_usable:
                self._keep(session, sender)
            return stop.outcome
        except (RefusedError, SmtpBrokenError, OSError, TimeoutError) as error:
            return _outcome_of(error, sender)
        return await self._finish(session, sender, may_begin)

    def close(self) -> None:
        """End the sessions that wait for another mail."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        for sessions in self._idle.values():
            for session in sessions:
                session.connection.end()
        self._idle.clear()
        self._idle_count = 0

    async def _open(self, sender: Sender) -> SmtpSession:
        port = sender.port or PORTS[sender.tls]
        target = address_guard.check_mail_server(sender.host, port, self._dialer.allow_hosts)
        async with asyncio.timeout(sender.timeout_s):
            connection = await self._dialer.dial(
                target,
                SmtpConnection,
                tls=self._tls if sender.tls is Tls.IMPLICIT else None,
                timeout_s=sender.timeout_s,
            )
            try:
                tls = self._tls if sender.tls is Tls.STARTTLS else None
                return await open_session(connection, sender, tls)
            except BaseException:
                connection.abort()
                raise

    async def _begin(self, session: SmtpSession, request: SmtpRequest, sender: Sender) -> None:
        """Send all but the final dot; a connection that failed is closed."""
        try:
            async with asyncio.timeout(sender.timeout_s):
                await session.begin(request)
            async with asyncio.timeout(SMTP_BODY_S):
                await session.send_body(request.message)
        except StoppedError:
            raise
        except BaseException:
            session.connection.abort()
            raise

    async def _finish(
        self, session: SmtpSession, sender: Sender, may_begin: Callable[[], bool]
    ) -> SendOutcome:
        """Send the final dot, and class what came of it."""
        limit_s = sender.dot_timeout_s
        if not may_begin():
            session.connection.abort()
            return TryAgain(reason=TOO_LATE)
        try:
            async with asyncio.timeout(limit_s):
                reply = await session.end_body()
        except TimeoutError:
            late = await session.connection.late_reply()
            session.connection.abort()
            if late is not None:
                return _outcome_of_dot(late)
            return Unknown(
                reason=f"{sender.host} gave no reply to the final dot within {limit_s:g} s"
            )
        except SmtpBrokenError as error:
            session.connection.abort()
            return Unknown(reason=f"{sender.host} did not confirm the mail: {error}")
        except BaseException:
            session.connection.abort()
            raise
        self._keep(session, sender)
        return _outcome_of_dot(reply)

    # Sessions that wait for another mail.

    def _take(self, sender: Sender) -> SmtpSession | None:
        sessions = self._idle.get(_key(sender))
        while sessions:
            session = sessions.pop()
            self._idle_count -= 1
            is_fresh = self._monotonic() - session.idle_since_s < IDLE_S
            if is_fresh and session.connection.is_usable:
                return session
            session.connection.end()
        return None

    def _keep(self, session: SmtpSession, sender: Sender) -> None:
        sessions = self._idle.setdefault(_key(sender), deque())
        if (
            not session.connection.is_usable
            or session.mails >= SESSION_MAILS_MAX
            or len(sessions) >= sender.concurrency
            or self._idle_count >= SESSIONS_KEPT_MAX
        ):
            session.connection.end()
            return
        session.idle_since_s = self._monotonic()
        sessions.append(session)
        self._idle_count += 1
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(SWEEP_S, self._close_old)

    def _close_old(self) -> None:
        self._sweep = None
        old_s = self._monotonic() - IDLE_S
        for key, sessions in list(self._idle.items()):
            while sessions and sessions[0].idle_since_s <= old_s:
                sessions.popleft().connection.end()
                self._idle_count -= 1
            if not sessions:
                del self._idle[key]
        if self._idle:
            self._sweep = asyncio.get_running_loop().call_later(SWEEP_S, self._close_old)


def _key(sender: Sender) -> Hashable:
    """Sessions of another server, login or greeting are not ours."""
    port = sender.port or PORTS[sender.tls]
    login = (sender.username, sender.password, sender.options.get("helo"))
    return (sender.id, sender.host, port, sender.tls, login)


def _outcome_of(error: Exception, sender: Sender) -> NotSent | TryAgain:
    """Class what went wrong before the final dot."""
    match error:
        case RefusedError():
            return NotSent(reason=str(error), fault=Fault.SENDER)
        case TimeoutError():
            reason = f"did not answer in {sender.timeout_s:g} s"
        case SmtpBrokenError():
            reason = f"could not be reached: {error}"
        case ssl.SSLCertVerificationError():
            reason = f"could not be reached: its certificate is not valid ({error.verify_message})"
        case _:
            reason = f"could not be reached: {type(error).__name__}"
    return TryAgain(reason=f"{sender.host} {reason}")


def _outcome_of_dot(reply: SmtpReply) -> SendOutcome:
    text = answers.short(reply.text)
    if 200 <= reply.code < 300:
        return Accepted(message_id=None, evidence=text)
    if reply.code == _SERVICE_ENDS or reply.code < 400:
        return Unknown(reason=f"the final dot was answered {text}")
    if reply.code < 500:
        return TryAgain(reason=f"the final dot was answered {text}")
    return NotSent(reason=f"the final dot was answered {text}")
