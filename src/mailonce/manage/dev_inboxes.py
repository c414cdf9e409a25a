"""Inboxes of `--dev`: every address that mail is sent to gets one, in a domain made for it."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from mailonce.core.access import Caller, Scope
from mailonce.core.inboxes.inbox import (
    KnownInbox,
    RecipientRefusal,
    RefusalReason,
)
from mailonce.core.inboxes.inbox_request import InboxRequest
from mailonce.core.mail.address import MailAddress, read_address
from mailonce.core.sends.dev_sender import dev_sender
from mailonce.errors import ClashError, RefusedError
from mailonce.inbox.accept import MailAcceptance
from mailonce.manage.domains import DEV, Domains
from mailonce.manage.inboxes import Inboxes
from mailonce.store.configuration import senders

FOREIGN = RecipientRefusal(
    550, "5.1.1", RefusalReason.POLICY,
    "the inbox of this address is another workspace's; send to another domain with --dev",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class DevInboxes:
    """Finds or makes the inboxes that `--dev` puts mail into."""

    acceptance: MailAcceptance
    domains: Domains
    inboxes: Inboxes
    # The workspaces whose sender of `--dev` has its lane.
    _ready: set[str] = field(default_factory=set)

    async def find(self, workspace: str, address: str) -> KnownInbox | RecipientRefusal:
        """Give the inbox of an address, which may be a catch-all; make it where there is none.

        Raises: RefusedError where it cannot be made, UnavailableError.
        """
        place = await self.acceptance.check(address)
        if isinstance(place, RecipientRefusal) and place.reason is RefusalReason.UNKNOWN:
            await self._make(workspace, [address])
            place = await self.acceptance.check(address)
        is_foreign = isinstance(place, KnownInbox) and place.workspace != workspace
        return FOREIGN if is_foreign else place

    async def prepare(self, workspace: str, addresses: Iterable[str]) -> None:
        """Make the inboxes of mail that is about to be submitted, so that readers can wait there.

        What cannot be made is told once the mail is sent.
        Raises: UnavailableError.
        """
        if workspace not in self._ready:
            lane = dev_sender(workspace).id
            await self.inboxes.parts.database.write(lambda tx: senders.ensure_lane(tx, lane))
            self._ready.add(workspace)
        read = {one: read_address(one) for one in addresses}
        places = await self.acceptance.find(one for one in read.values() if one is not None)
        missing = [text for text, one in read.items() if one is not None and one not in places]
        for domain in dict.fromkeys(text.rpartition("@")[2] for text in missing):
            same = [text for text in missing if text.rpartition("@")[2] == domain]
            try:
                await self._make(workspace, same)
            except RefusedError:
                continue

    async def _make(self, workspace: str, addresses: Iterable[str]) -> None:
        """Make inboxes at one domain, all or none."""
        read = {one.untagged for text in addresses if (one := read_address(text)) is not None}
        wanted = sorted(read, key=str)
        if not wanted:
            return
        caller = Caller(workspace, Scope.OPERATOR)
        await self.domains.add(caller, wanted[0].domain, origin=DEV)
        try:
            await self.inboxes.make(caller, [_request(one) for one in wanted])
        except ClashError:
            # Somebody else made it at the same moment, or one of several stands: one by one.
            if len(wanted) > 1:
                for one in wanted:
                    await self._make(workspace, [str(one)])
        self.acceptance.forget()


def _request(address: MailAddress) -> InboxRequest:
    return InboxRequest(local=address.local, domain=address.domain)
