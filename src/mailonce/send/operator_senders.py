"""Senders of the settings file: their host may be private, since the operator named it."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from mailonce.core.sends.sender import Sender
from mailonce.core.sends.sending import (
    Correlation,
    Frozen,
    LookupOutcome,
    SendFacts,
    Sending,
    SendOutcome,
)
from mailonce.send.step import MayBegin, ProviderCaller


class OperatorSenders:
    """Lets the senders of the settings file reach their own host, and all others no private one.

    `hosts` has the host of each by the sender's id; a sender whose host was changed since, over the
    API, is as any other.
    """

    def __init__(self, guarded: ProviderCaller, trusting: ProviderCaller) -> None:
        self._guarded = guarded
        self._trusting = trusting
        self.hosts: Mapping[str, str] = {}

    async def transmit(
        self, request: Frozen, sender: Sender, sending: Sending, *, may_begin: MayBegin
    ) -> SendOutcome:
        """Make a call, once."""
        caller = self._for(sender)
        return await caller.transmit(request, sender, sending, may_begin=may_begin)

    async def look_up(
        self, correlation: Correlation, sender: Sender, sending: Sending, facts: SendFacts
    ) -> LookupOutcome | None:
        """Ask a provider for a mail; None where it cannot be asked."""
        return await self._for(sender).look_up(correlation, sender, sending, facts)

    def _for(self, sender: Sender) -> ProviderCaller:
        host = host_of(sender)
        is_trusted = bool(host) and self.hosts.get(sender.id) == host
        return self._trusting if is_trusted else self._guarded


def host_of(sender: Sender) -> str:
    """Give the host that a sender names itself; '' where its provider's own is used."""
    return sender.host or urlsplit(sender.endpoint).hostname or ""
