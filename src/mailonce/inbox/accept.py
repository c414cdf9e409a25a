"""Accept: which inbox a recipient means, and a mail made durable in each of them.

What a door asks at RCPT is a hint, remembered for a second: an inbox may expire or be deleted
before the mail is there. The commit decides. It numbers the mail in its inbox; where the inbox is
gone by then, the mail is kept without a number, as mail that no inbox takes.

Whether an inbox has room is asked again when the mail is there: few senders must say its size
before, and others were let in since. Who sends to full inboxes alone is refused then. SMTP has one
answer for all recipients, so where one of several is full, the mail is kept beside that one.

A crash before the commit leaves nothing, and the sender was told nothing, so it sends again; after
it the mail stands, and the same bytes sent again are a copy.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache, partial

from msgspec import Struct

from mailonce.clock import Clock
from mailonce.core.arrivals.source import SMTP, SMTP_ACCOUNT
from mailonce.core.ids import ArrivalId
from mailonce.core.inboxes import inbox as rules
from mailonce.core.inboxes.inbox import (
    KnownInbox,
    NoRoomError,
    RecipientRefusal,
    quota_refusal,
    refusal_for,
    spellings_of,
)
from mailonce.core.inboxes.mail_items import NO_INBOX, MailItem, mail_items
from mailonce.core.ledger.claim import FirstClaim
from mailonce.core.ledger.entry import ArrivalOutcome, Entry, EntryOutcome
from mailonce.core.mail.address import MailAddress, read_address
from mailonce.core.mail.incoming import IncomingMail, MimeContent
from mailonce.errors import UnavailableError
from mailonce.inbox.address_lookup import AddressLookup
from mailonce.inbox.inbox_room import REMEMBER_MAX, REMEMBER_S, InboxRoom
from mailonce.inbox.refusals import MailRefusals
from mailonce.pipeline.record import Recorder
from mailonce.store.dialects.contract import Database
from mailonce.store.inboxes import inboxes
from mailonce.store.inboxes.inboxes import AddressedInbox


class AcceptedMail(Struct, frozen=True, gc=False):
    """A mail that is durable: how many inboxes it is new in, and the ids under which it is kept."""

    new: int
    mails: tuple[bytes, ...]


# What a caller hears of a mail, once: that it is durable in all its inboxes, or why it is not.
AcceptResult = AcceptedMail | UnavailableError
TellAccepted = Callable[[AcceptResult], None]
Places = Mapping[str, AddressedInbox]


class MailAcceptance:
    """Takes mail for the inboxes of every workspace."""

    def __init__(
        self, database: Database, clock: Clock, recorder: Recorder, refusals: MailRefusals
    ) -> None:
        self._clock = clock
        self._recorder = recorder
        self._refusals = refusals
        self._lookup = AddressLookup(
            lambda names: database.read(lambda tx: inboxes.lead(tx, names))
        )
        # What addresses led to, and until when that is believed.
        self._known: dict[str, tuple[AddressedInbox, float]] = {}
        self._room = InboxRoom()
        self.note_refusal = refusals.add

    def forget(self) -> None:
        """Ask the database about each inbox anew: this process has changed some."""
        self._known.clear()
        self._room.forget()

    async def check(
        self, address: str, *, size_bytes: int | None = None
    ) -> KnownInbox | RecipientRefusal:
        """Say which inbox takes mail for an address, or why none does.

        Raises: UnavailableError where the database cannot tell.
        """
        verdict = self.recall(address, size_bytes=size_bytes)
        if verdict is not None:
            return verdict
        read = read_address(address)
        assert read is not None, "what is no address is refused from memory"
        place = (await self.find([read])).get(read)
        return rules.UNKNOWN if place is None else self._judge(place, str(read), size_bytes)

    def recall(
        self, address: str, *, size_bytes: int | None = None
    ) -> KnownInbox | RecipientRefusal | None:
        """Say what `check` would, from memory alone; None where the database must be asked."""
        name = _name_of(address)
        if name is None:
            return rules.BAD_ADDRESS
        place = self._recall(name, self._clock.monotonic())
        return None if place is None else self._judge(place, name, size_bytes)

    async def find(self, addresses: Iterable[MailAddress]) -> dict[MailAddress, AddressedInbox]:
        """Find the inboxes that addresses lead to, each by its most exact spelling."""
        now_s = self._clock.monotonic()
        wanted = {address: spellings_of(address) for address in addresses}
        recent = {address: self._recall(names[0], now_s) for address, names in wanted.items()}
        unknown = {
            name for address, one in recent.items() if one is None for name in wanted[address]
        }
        if not unknown:
            return {address: one for address, one in recent.items() if one is not None}
        read = await self._lookup.find(unknown)
        now_s = self._clock.monotonic()
        places: dict[MailAddress, AddressedInbox] = {}
        for address, names in wanted.items():
            place = recent[address] or next((read[name] for name in names if name in read), None)
            if place is not None:
                places[address] = place
                self._remember(names[0], place, now_s)
        return places

    async def match(
        self, workspace: str, recipients: Sequence[str]
    ) -> Mapping[str, KnownInbox | RecipientRefusal]:
        """Say what becomes of each recipient of a mail that a hook of a workspace handed over."""
        read = {text: read_address(text) for text in recipients}
        places = await self.find(one for one in read.values() if one is not None)
        verdicts: dict[str, KnownInbox | RecipientRefusal] = {}
        for text, address in read.items():
            place = None if address is None else places.get(address)
            if address is None:
                verdicts[text] = rules.BAD_ADDRESS
            elif place is None or place.inbox.workspace != workspace:
                verdicts[text] = rules.UNKNOWN
            else:
                verdicts[text] = self._judge(place, str(address), None)
        return verdicts

    async def accept(self, mail: IncomingMail, inboxes: Sequence[KnownInbox]) -> AcceptedMail:
        """Keep a mail in each of these inboxes; return once it is durable in all of them.

        Raises: NoRoomError, FullError, or UnavailableError where it is not durable in one of them.
        """
        answered: asyncio.Future[AcceptedMail] = asyncio.get_running_loop().create_future()
        self._hand_on(mail, inboxes, await self._places(inboxes), partial(_resolve, answered))
        return await answered

    def submit(self, mail: IncomingMail, inboxes: Sequence[KnownInbox], tell: TellAccepted) -> bool:
        """Do what `accept` does without a task; say whether the mail was taken.

        It is not where one of the inboxes must be looked up again. `tell` is called later, once.
        Raises: NoRoomError.
        """
        places = self._recall_places(inboxes)
        if None in places.values():
            return False
        self._hand_on(mail, inboxes, _still_own(inboxes, places), tell)
        return True

    def _hand_on(
        self,
        mail: IncomingMail,
        inboxes: Sequence[KnownInbox],
        places: Places,
        tell: TellAccepted,
    ) -> None:
        size = len(mail.content.raw) if isinstance(mail.content, MimeContent) else 0
        kept = self._with_room(inboxes, places, size)
        counted = {one.id for one in kept if one.address in places and one.id != NO_INBOX}
        workspaces = sorted({inbox.workspace for inbox in kept})
        storing = _MailBeingStored(self._room, counted, size, len(workspaces), tell)
        for workspace in workspaces:
            entry = self._entry(mail, workspace, kept)
            take = partial(storing.take, entry)
            try:
                self._recorder.submit(entry, take)
            except UnavailableError as error:
                asyncio.get_running_loop().call_soon(take, error)

    def _entry(self, mail: IncomingMail, workspace: str, inboxes: Sequence[KnownInbox]) -> Entry:
        own = _once([inbox for inbox in inboxes if inbox.workspace == workspace])
        items = mail_items(workspace, SMTP_ACCOUNT, mail, own, new_id=self._clock.new_id)
        return Entry(
            id=ArrivalId(self._clock.new_id()),
            workspace=workspace,
            source=SMTP,
            account=SMTP_ACCOUNT,
            # A copy of the mail has the same one.
            arrival_key=items[0].key.hex(),
            body=mail.content.raw if isinstance(mail.content, MimeContent) else b"",
            headers=b"{}",
            signs_body=False,
            events=(),
            items=items,
            items_keep_body=True,
        )

    def _judge(
        self, place: AddressedInbox, address: str, size_bytes: int | None
    ) -> KnownInbox | RecipientRefusal:
        now_ms = self._clock.now_ms()
        if place.until_ms is not None and place.until_ms <= now_ms:
            return rules.EXPIRED
        inbox = place.inbox
        use = self._room.use_of(inbox)
        refusal = refusal_for(inbox, size_bytes=size_bytes, now_ms=now_ms, use=use)
        return refusal or KnownInbox(inbox.id, inbox.workspace, address)

    async def _places(self, inboxes: Sequence[KnownInbox]) -> Places:
        """Find the inboxes of a mail again, as they are now; those that are gone are left out."""
        places = self._recall_places(inboxes)
        unknown = [read_address(name) for name, place in places.items() if place is None]
        if unknown:
            again = await self.find(one for one in unknown if one is not None)
            places |= {str(address): place for address, place in again.items()}
        return _still_own(inboxes, places)

    def _recall_places(self, inboxes: Sequence[KnownInbox]) -> dict[str, AddressedInbox | None]:
        now_s = self._clock.monotonic()
        return {one.address: self._recall(one.address, now_s) for one in inboxes}

    def _with_room(
        self, inboxes: Sequence[KnownInbox], places: Places, size: int
    ) -> list[KnownInbox]:
        """Give the inboxes that have room for a mail; for the others it is one that none takes.

        Raises: NoRoomError where none has.
        """
        kept: list[KnownInbox] = []
        refused: dict[str, RecipientRefusal] = {}
        for one in inboxes:
            place = places.get(one.address)
            refusal = None
            if place is not None:
                refusal = quota_refusal(place.inbox, size, self._room.use_of(place.inbox))
            if refusal is not None:
                refused[one.address] = refusal
            kept.append(one if refusal is None else KnownInbox(NO_INBOX, one.workspace, ""))
        if refused and all(one.id == NO_INBOX for one in kept):
            raise NoRoomError(next(iter(refused.values())))
        for address, refusal in refused.items():
            self.note_refusal(address, refusal)
        return kept

    def _recall(self, name: str, now_s: float) -> AddressedInbox | None:
        known = self._known.get(name)
        return known[0] if known is not None and known[1] > now_s else None

    def _remember(self, name: str, place: AddressedInbox, now_s: float) -> None:
        if len(self._known) >= REMEMBER_MAX:
            self._known.clear()
        self._known[name] = (place, now_s + REMEMBER_S)
        self._room.refresh(place.inbox, now_s)


class _MailBeingStored:
    """One mail on its way into the inboxes of one or more workspaces."""

    __slots__ = ("_counted", "_error", "_left", "_mails", "_new", "_room", "_size", "_tell")

    def __init__(
        self,
        room: InboxRoom,
        counted: Collection[str],
        size: int,
        workspaces: int,
        tell: TellAccepted,
    ) -> None:
        self._room = room
        self._counted = counted
        self._size = size
        self._left = workspaces
        self._tell = tell
        self._new = 0
        self._mails: list[bytes] = []
        self._error: UnavailableError | None = None
        room.begin(counted, size)

    def take(self, entry: Entry, result: EntryOutcome | UnavailableError) -> None:
        """Take what became of the mail in one workspace; tell after the last."""
        if isinstance(result, UnavailableError):
            self._error = result
        else:
            assert isinstance(result, ArrivalOutcome), "mail over SMTP has no guard"
            for item, verdict in zip(entry.items, result.verdicts, strict=True):
                if not isinstance(item, MailItem):
                    continue
                if isinstance(verdict, FirstClaim):
                    self._new += 1
                    self._mails.append(item.id)
                else:
                    self._room.take_back(item.inbox, len(item.content))
                    self._mails.append(verdict.owner)
        self._left -= 1
        if not self._left:
            self._room.end(self._counted, self._size)
            self._tell(self._error or AcceptedMail(self._new, tuple(self._mails)))


def _still_own(
    inboxes: Sequence[KnownInbox], places: Mapping[str, AddressedInbox | None]
) -> Places:
    """Leave out inboxes that are gone, or whose address leads elsewhere by now."""
    return {
        one.address: place
        for one in inboxes
        if (place := places[one.address]) is not None and place.inbox.id == one.id
    }


@lru_cache(maxsize=REMEMBER_MAX)
def _name_of(address: str) -> str | None:
    """Give the one spelling of an address; None where it is none."""
    read = read_address(address)
    return None if read is None else str(read)


def _resolve(answered: "asyncio.Future[AcceptedMail]", result: AcceptResult) -> None:
    """Hand the result to the task that awaits it, unless that was cancelled."""
    if answered.done():
        return
    if isinstance(result, UnavailableError):
        answered.set_exception(result)
    else:
        answered.set_result(result)


def _once(inboxes: Sequence[KnownInbox]) -> list[KnownInbox]:
    """Take each inbox once: two recipients may lead to the same one."""
    return list({inbox.id: inbox for inbox in reversed(inboxes)}.values())[::-1]
