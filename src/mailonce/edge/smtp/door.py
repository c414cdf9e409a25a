"""The SMTP door as a whole: made from settings, started on sockets, drained and stopped."""

import asyncio
import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial

from mailonce.core.signatures.proof import check_network
from mailonce.edge.connections import ClientConnections
from mailonce.edge.smtp import replies
from mailonce.edge.smtp.acceptance import AcceptsMail
from mailonce.edge.smtp.certificate import ServerCertificate
from mailonce.edge.smtp.conversation import Rules
from mailonce.edge.smtp.limits import Rate, SmtpLimits
from mailonce.edge.smtp.logins import Logins
from mailonce.edge.smtp.parts import SmtpParts
from mailonce.edge.smtp.protocol import SmtpProtocol
from mailonce.loop import Loop
from mailonce.settings.smtp import SmtpSettings
from mailonce.telemetry import SmtpMetrics

CERTIFICATE_EVERY_S = 1.0
DRAIN_LOOK_S = 0.02
BACKLOG = 1024


class SmtpDoor:
    """Takes mail on its sockets until it is stopped."""

    def __init__(
        self,
        settings: SmtpSettings,
        mail: AcceptsMail,
        metrics: SmtpMetrics,
        *,
        connections_max: int | None = None,
    ) -> None:
        """Make a door, not yet open; `connections_max` is for a system with few files.

        Raises: ConfigError where the certificate or a network cannot be used.
        """
        certificate = check_door(settings)
        limits = _limits(settings, connections_max)
        self._drain_s = settings.drain_s
        self._deadline = 0.0
        self._certificate = certificate
        self.parts = SmtpParts(
            connections=ClientConnections(
                limits, metrics.door, replies.CROWD, tuple(settings.unlimited)
            ),
            rules=_rules(settings),
            mail=mail,
            metrics=metrics,
            certificate=certificate,
            proxy_peers=tuple(settings.proxy_peers),
            connects=Rate(limits.address_connects_per_minute_max),
            mails=Rate(limits.address_mails_per_minute_max),
            wrong_logins=Rate(limits.address_wrong_logins_per_minute_max),
        )
        self._servers: list[asyncio.Server] = []
        self._loop = Loop("smtp_certificate", self._look, retry_s=CERTIFICATE_EVERY_S)

    async def start(
        self, sockets: Sequence[socket.socket], tls_sockets: Sequence[socket.socket] = ()
    ) -> None:
        """Take connections on bound sockets; those on `tls_sockets` begin with TLS."""
        self.parts.connections.start()
        if self._certificate is not None:
            self._loop.start()
        loop = asyncio.get_running_loop()
        for begins_with_tls, group in ((False, sockets), (True, tls_sockets)):
            session = partial(SmtpProtocol, self.parts, begins_with_tls=begins_with_tls)
            for one in group:
                server = await loop.create_server(session, sock=one, backlog=BACKLOG)
                self._servers.append(server)

    def close(self) -> None:
        """Take no further mail: idle sessions end now, the others after their mail.

        Called again, it waits for nobody any more.
        """
        now = asyncio.get_running_loop().time()
        if self.parts.is_stopping:
            self._deadline = now
            return
        self._deadline = now + self._drain_s
        self.parts.is_stopping = True
        for server in self._servers:
            server.close()
        for session in list(self.parts.sessions):
            session.stop(at_once=False)

    async def stop(self) -> None:
        """Close, wait for mails under way within the time that is set, and end."""
        if not self.parts.is_stopping:
            self.close()
        await self._wait_while(lambda: any(one.is_under_way for one in self.parts.sessions))
        for session in list(self.parts.sessions):
            session.stop(at_once=True)
        # What was handed on is stored or not by the service, which stops after us.
        await self._wait_while(lambda: bool(self.parts.tasks or self.parts.storing))
        for session in list(self.parts.sessions):
            session.drop()
        for task in list(self.parts.tasks):
            task.cancel()
        await self._loop.stop()
        await self.parts.connections.stop()

    @property
    def _left_s(self) -> float:
        return max(0.0, self._deadline - asyncio.get_running_loop().time())

    async def _wait_while(self, is_busy: Callable[[], bool]) -> None:
        # A mail under way ends in many ways; looking at all of them, once, is the simplest.
        while is_busy() and self._left_s:  # noqa: ASYNC110
            await asyncio.sleep(DRAIN_LOOK_S)

    async def _look(self) -> float:
        assert self._certificate is not None, "there is a certificate to look at"
        self._certificate.look()
        return CERTIFICATE_EVERY_S


def _limits(settings: SmtpSettings, connections_max: int | None) -> SmtpLimits:
    values = {field.name: getattr(settings, field.name) for field in fields(SmtpLimits)}
    if connections_max is not None:
        values["connections_max"] = min(connections_max, settings.connections_max)
    return SmtpLimits(**values)


def check_door(settings: SmtpSettings) -> ServerCertificate | None:
    """Check what a door needs of its settings, and load its certificate.

    Raises: ConfigError where the certificate or a network cannot be used.
    """
    for name in ("proxy_peers", "unlimited"):
        for network in getattr(settings, name):
            check_network(network, f"smtp.{name}")
    if settings.certificate is None:
        return None
    return ServerCertificate(settings.certificate, settings.certificate_key or settings.certificate)


def _rules(settings: SmtpSettings) -> Rules:
    return Rules(
        hostname=settings.hostname or _own_name(),
        message_bytes_max=settings.message_bytes_max,
        recipients_max=settings.recipients_max,
        commands_max=settings.commands_max,
        errors_max=settings.errors_max,
        offers_tls=settings.certificate is not None,
        requires_tls=settings.require_tls,
        logins=Logins(settings.users),
        requires_auth=settings.require_auth,
    )


def _own_name() -> str:
    """Give this host's name as it knows it; asking the DNS could take forever."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:255] or "localhost"
