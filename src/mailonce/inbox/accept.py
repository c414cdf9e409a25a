"""Accept: which inbox a recipient means, and a mail made durable in each of them.

What a door asks at RCPT is a hint, remembered for a second: an inbox may expire or be deleted
before the mail is there. The commit decides. It numbers the mail in its inbox; where the inbox is
gone by then, the mail is kept without a number, as mail that no inbox takes.

A crash before the commit leaves nothing, and the sender was told nothing, so it sends again; after
it the mail stands, and the same bytes sent again are a copy.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from mailonce.clock import Clock
from mailonce.core.ids import ArrivalId
from mailonce.core.inboxes import inbox as rules
from mailonce.core.inboxes.inbox import KnownInbox, RecipientRefusal, refusal_for, spellings_of
from mailonce.core.inboxes.mail_items import MailItem, mail_items
from mailonce.core.ledger.claim import FirstClaim
from mailonce.core.ledger.entry import ArrivalOutcome, Entry
from mailonce.core.mail.address import MailAddress, read_address
from mailonce.core.mail.incoming import IncomingMail, MimeContent
from mailonce.inbox.address_lookup import AddressLookup
from mailonce.inbox.refusals import MailRefusals
from mailonce.pipeline.record import Recorder
from mailonce.store.dialects.contract import Database
from mailonce.store.inboxes import inboxes
from mailonce.store.inboxes.inboxes import AddressedInbox

# The source and account of mail that comes over SMTP.
SMTP = "smtp"
ACCOUNT = "smtp/door"
REMEMBER_S = 1.0
REMEMBER_MAX = 10_000


class AcceptedMail(Struct, frozen=True, gc=False):
    """A mail that is durable: how many inboxes it is new in, and the ids under which it is kept."""

    new: int
    mails: tuple[bytes, ...]


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
        self.note_refusal = refusals.add
        self.forget = self._known.clear

    async def check(
        self, address: str, *, size_bytes: int | None = None
    ) -> KnownInbox | RecipientRefusal:
        """Say which inbox takes mail for an address, or why none does.

        Raises: UnavailableError where the database cannot tell.
        """
        read = read_address(address)
        if read is None:
            return rules.BAD_ADDRESS
        place = (await self.find([read])).get(read)
        return rules.UNKNOWN if place is None else self._judge(place, read, size_bytes)

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
                verdicts[text] = self._judge(place, address, None)
        return verdicts

    async def accept(self, mail: IncomingMail, inboxes: Sequence[KnownInbox]) -> AcceptedMail:
        """Keep a mail in each of these inboxes; return once it is durable in all of them.

        Raises: FullError, or UnavailableError where it is not durable in one of them.
        """
        new = 0
        mails: list[bytes] = []
        if isinstance(mail.content, MimeContent):
            self._fill(inboxes, len(mail.content.raw))
        for workspace in sorted({inbox.workspace for inbox in inboxes}):
            entry = self._entry(mail, workspace, inboxes)
            outcome = await self._recorder.record(entry)
            assert isinstance(outcome, ArrivalOutcome), "mail over SMTP has no guard"
            for item, verdict in zip(entry.items, outcome.verdicts, strict=True):
                if isinstance(item, MailItem):
                    is_first = isinstance(verdict, FirstClaim)
                    new += is_first
                    mails.append(item.id if isinstance(verdict, FirstClaim) else verdict.owner)
        return AcceptedMail(new, tuple(mails))

    def _entry(self, mail: IncomingMail, workspace: str, inboxes: Sequence[KnownInbox]) -> Entry:
        own = _once([inbox for inbox in inboxes if inbox.workspace == workspace])
        ids = [self._clock.new_id() for _ in range(len(own) + 1)]
        items = mail_items(workspace, ACCOUNT, mail, own, ids=ids)
        return Entry(
            id=ArrivalId(self._clock.new_id()),
            workspace=workspace,
            source=SMTP,
            account=ACCOUNT,
            # The key of the delivery is a hash of all that was handed over.
            arrival_key=items[0].key.hex(),
            body=mail.content.raw if isinstance(mail.content, MimeContent) else b"",
            headers=b"{}",
            signs_body=False,
            events=(),
            items=items,
            items_keep_body=True,
        )

    def _judge(
        self, place: AddressedInbox, address: MailAddress, size_bytes: int | None
    ) -> KnownInbox | RecipientRefusal:
        now_ms = self._clock.now_ms()
        if place.until_ms is not None and place.until_ms <= now_ms:
            return rules.EXPIRED
        refusal = refusal_for(place.inbox, size_bytes=size_bytes, now_ms=now_ms)
        return refusal or KnownInbox(place.inbox.id, place.inbox.workspace, str(address))

    def _fill(self, inboxes: Sequence[KnownInbox], mail_bytes: int) -> None:
        """Count a mail in what is remembered: else a second's mail would not count at all."""
        for one in inboxes:
            known = self._known.get(one.address)
            if known is not None:
                place, until_s = known
                filled = replace(
                    place.inbox, mails=place.inbox.mails + 1, bytes=place.inbox.bytes + mail_bytes
                )
                self._known[one.address] = (place._replace(inbox=filled), until_s)

    def _recall(self, name: str, now_s: float) -> AddressedInbox | None:
        known = self._known.get(name)
        return known[0] if known is not None and known[1] > now_s else None

    def _remember(self, name: str, place: AddressedInbox, now_s: float) -> None:
        if len(self._known) >= REMEMBER_MAX:
            self._known.clear()
        self._known[name] = (place, now_s + REMEMBER_S)


def _once(inboxes: Sequence[KnownInbox]) -> list[KnownInbox]:
    """Take each inbox once: two recipients may lead to the same one."""
    return list({inbox.id: inbox for inbox in reversed(inboxes)}.values())[::-1]
