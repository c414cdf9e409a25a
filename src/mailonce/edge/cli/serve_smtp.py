"""The SMTP door of `mailonce serve`: its sockets, bound before the service starts."""

import socket
from dataclasses import dataclass

from mailonce.edge.cli.listeners import address_of, bind, listen, sockets_of
from mailonce.edge.smtp.door import BACKLOG, SmtpDoor
from mailonce.errors import ConfigError
from mailonce.inbox.listening import Listening
from mailonce.service import Service
from mailonce.settings import Role, Settings
from mailonce.telemetry import SMTP_PORT_TAKEN, log

# Of all files that the process may open, the SMTP door's connections take this share at most.
FILES_SHARE = 5
PORT_OPTION = "--smtp-port, or with MAILONCE_SMTP__PORT=… before the command"
TLS_PORT_OPTION = "`smtp.tls_port`"


@dataclass(frozen=True, slots=True)
class SmtpSockets:
    """Bound sockets: nobody can connect until they listen."""

    listener: socket.socket
    tls_listener: socket.socket | None
    # Somebody asked for the port or for the role: without it there is no start.
    is_chosen: bool

    def close(self) -> None:
        self.listener.close()
        if self.tls_listener is not None:
            self.tls_listener.close()


@dataclass(frozen=True, slots=True)
class BoundSmtp:
    """A door whose sockets are bound; nobody can connect until it is started."""

    door: SmtpDoor
    listening: Listening
    sockets: SmtpSockets

    @property
    def address(self) -> str:
        return address_of(self.sockets.listener)

    async def start(self) -> bool:
        """Take mail, unless a process that was started with this one has the usual port.

        Both may bind it, and the first that listens has it.
        Raises: ConfigError where another process listens there since we bound the sockets.
        """
        tls_listener = self.sockets.tls_listener
        try:
            listen(self.sockets.listener, BACKLOG, option=PORT_OPTION)
        except ConfigError as error:
            if self.sockets.is_chosen:
                raise
            log_taken(self.sockets.listener.getsockname()[1], error)
            self.sockets.close()
            return False
        if tls_listener is not None:
            listen(tls_listener, BACKLOG, option=TLS_PORT_OPTION)
        tls = [] if tls_listener is None else sockets_of(tls_listener)
        await self.door.start(sockets_of(self.sockets.listener), tls)
        self.listening.start()
        return True

    def close(self) -> None:
        """Take no further mail; called again, wait for none that is under way."""
        self.door.close()
        self.door.parts.start(self.listening.stop())

    async def stop(self) -> None:
        """Finish the mails under way, within the time that is set, and end."""
        await self.listening.stop()
        await self.door.stop()


def bind_smtp(settings: Settings) -> SmtpSockets | None:
    """Bind the sockets of the SMTP door, if that is this process's role.

    Several processes on one machine do everything by default; the first of them has the SMTP door's
    usual port, and the others go on without. Whoever asks for a port or for the role gets it or an
    error.
    Raises: ConfigError where a port cannot be used.
    """
    if not settings.has_role(Role.SMTP):
        return None
    given = settings.smtp
    try:
        listener = bind(settings.smtp_host, given.port, option=PORT_OPTION)
    except ConfigError as error:
        if is_chosen(settings):
            raise
        log_taken(given.port, error)
        return None
    try:
        tls_listener = None
        if given.tls_port is not None:
            tls_listener = bind(settings.smtp_host, given.tls_port, option=TLS_PORT_OPTION)
    except ConfigError:
        listener.close()
        raise
    return SmtpSockets(listener, tls_listener, is_chosen(settings))


def is_chosen(settings: Settings) -> bool:
    """Say whether somebody asked for the SMTP door: then there is no start without it."""
    is_named = Role.SMTP in settings.roles or "port" in settings.smtp.model_fields_set
    return settings.has_role(Role.SMTP) and is_named


def log_taken(port: int, error: ConfigError) -> None:
    """Log that this process goes on without an SMTP door."""
    log.warning(SMTP_PORT_TAKEN, port=port, error=str(error))


def build_smtp(
    settings: Settings, service: Service, sockets: SmtpSockets | None, *, files: int
) -> BoundSmtp | None:
    """Put the door behind its sockets; None where there are none.

    Raises: ConfigError where the certificate cannot be used.
    """
    if sockets is None:
        return None
    door = SmtpDoor(
        settings.smtp,
        service.mail.acceptance,
        service.metrics.smtp,
        connections_max=max(1, files // FILES_SHARE),
    )
    return BoundSmtp(door, service.mail.listening, sockets)
