"""Match mail: which inboxes take the mail that a provider's hook handed over.

What the envelope says decides, never a header. A hook cannot refuse one recipient of several, so
mail that no inbox takes is kept beside the inboxes, for an operator to adopt.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from msgspec.structs import replace

from mailonce.core.arrivals.provider import Parsed
from mailonce.core.events.event import EventType
from mailonce.core.inboxes.inbox import KnownInbox, RecipientRefusal
from mailonce.core.inboxes.mail_items import mail_items
from mailonce.core.ledger.entry import Candidate, Entry, Item
from mailonce.core.mail.address import read_address

# What becomes of each recipient, as the envelopes write them.
MailPlaces = Mapping[str, KnownInbox | RecipientRefusal]
NOWHERE: MailPlaces = MappingProxyType({})


def with_mail(
    entry: Entry, parsed: Parsed, places: MailPlaces, *, new_id: Callable[[], bytes]
) -> Entry:
    """Add an arrival's mail to its entry.

    The `inbound` events of mail that an inbox takes are left out: reading the mail makes them.
    """
    items: list[Item] = []
    taken: set[str] = set()
    is_all_taken = True
    for mail in parsed.mails:
        inboxes: dict[str, KnownInbox] = {}
        for recipient in mail.envelope.recipients:
            place = places.get(recipient)
            if isinstance(place, KnownInbox):
                inboxes.setdefault(place.id, place)
                taken.add(_spelling(recipient))
        is_all_taken = is_all_taken and bool(inboxes)
        own = list(inboxes.values())
        items += mail_items(entry.workspace, entry.account, mail, own, new_id=new_id)
    left = [
        position
        for position, one in enumerate(entry.events)
        if not _is_read_later(one, taken, is_all_taken=is_all_taken)
    ]
    return replace(
        entry,
        events=tuple([entry.events[position] for position in left]),
        positions=tuple(left),
        items=tuple(items),
        items_keep_body=not left and not entry.dead,
    )


def _is_read_later(candidate: Candidate, taken: set[str], *, is_all_taken: bool) -> bool:
    event = candidate.event
    return event.type is EventType.INBOUND and (is_all_taken or _spelling(event.recipient) in taken)


def _spelling(address: str) -> str:
    read = read_address(address)
    return address if read is None else str(read)
