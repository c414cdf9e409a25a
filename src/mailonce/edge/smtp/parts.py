"""What all sessions of the SMTP door share."""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from mailonce.edge.connections import ClientConnections, DoorRefusal
from mailonce.edge.smtp.acceptance import AcceptsMail, for_owner
from mailonce.edge.smtp.certificate import ServerCertificate
from mailonce.edge.smtp.conversation import Rules
from mailonce.edge.smtp.limits import Rate, SmtpLimits
from mailonce.telemetry import SmtpMetrics


class Session(Protocol):
    """One session, as the door sees it."""

    @property
    def is_under_way(self) -> bool:
        """Whether a mail is being read or stored, or a recipient looked up."""
        ...

    def stop(self, *, at_once: bool) -> None:
        """Stop: a mail under way is finished first, unless at once."""
        ...

    def drop(self) -> None:
        """Close without a word."""
        ...


@dataclass(slots=True, kw_only=True)
class SmtpParts:
    """What all sessions of a process share."""

    connections: ClientConnections[SmtpLimits]
    rules: Rules
    mail: AcceptsMail
    metrics: SmtpMetrics
    certificate: ServerCertificate | None
    proxy_peers: tuple[str, ...]
    connects: Rate
    mails: Rate
    wrong_logins: Rate
    sessions: set[Session] = field(default_factory=set)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    # Mails that were handed on and are not answered yet.
    storing: int = 0
    is_stopping: bool = False

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something to its end, whatever becomes of the connection."""
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def note(
        self, refusal: DoorRefusal, recipients: Sequence[str | None], peer: str | None
    ) -> None:
        """Tell the owners of inboxes that a mail for them was refused."""
        for address in recipients:
            self.mail.note_refusal(address, for_owner(refusal), peer=peer)
