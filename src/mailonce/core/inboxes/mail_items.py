"""Mail in the group commit: what a mail claims, and the rows that are kept of it.

Copies are known in three layers. A delivery is one handing over by one sender, known by the
provider's own id of it; where there is none, as over SMTP, what the mail itself claims is enough. A
mail is some content in one inbox: it is numbered and kept once. A message is what was read from it:
its id is made of its content, so that one mail by two ways, whose bytes differ, is one message.
Each layer claims keys of its own.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256

from msgspec import Struct

from mailonce.core.events.key import Fingerprint, Key, KeyScope
from mailonce.core.inboxes.inbox import KnownInbox
from mailonce.core.ledger.claim import CopyOf, FirstClaim, Verdict
from mailonce.core.ledger.entry import CopyRow, Entry
from mailonce.core.mail.incoming import ContentFormat, IncomingMail, stored_content, stored_facts
from mailonce.core.work.states import State

# The lanes of mail that is whole, and of mail that has to be fetched from a provider.
LANES = tuple(f"digest-{number}" for number in range(4))
FETCH_LANES = tuple(f"fetch-{number}" for number in range(8))
# How users know a mail, whether or not there is a message of it.
MAIL_PREFIX = "mail"
# How long reading a mail is tried before its inbox shows it as unreadable.
DIGEST_DEADLINE_S = 3600
LANES_REMEMBERED = 10_000
# Stands for the inbox of a mail that no inbox takes.
NO_INBOX = ""


class BlobRow(Struct, frozen=True, gc=False):
    """Bytes that are kept once in a workspace, whoever refers to them."""

    workspace: str
    sha256: bytes
    content: bytes
    # The mail that they are the bytes of; None for those of an attachment.
    mail: bytes | None = None


class MailRow(Struct, frozen=True, gc=False):
    """A mail in one inbox; it is also the piece of work that reads it."""

    key: bytes
    workspace: str
    digester: str
    state: int
    deadline_s: int
    inbox: str
    address: str
    source: str
    account: str
    arrival: bytes
    sha256: bytes
    format: str
    mail_bytes: int
    facts: bytes


class DeliveryItem(Struct, frozen=True, gc=False):
    """The handing over of a mail: a copy of it is known as such, whatever it holds."""

    id: bytes
    key: Key
    fingerprint: Fingerprint

    def shared_rows(self, entry: Entry) -> Iterable[Hashable]:
        del entry
        return ()

    def rows(self, entry: Entry, verdict: Verdict) -> Iterable[Struct]:
        """Write nothing: that it was seen is all there is to know."""
        del entry, verdict
        return ()


@dataclass(frozen=True, slots=True)
class MailItem:
    """A mail for one inbox."""

    id: bytes
    key: Key
    fingerprint: Fingerprint
    inbox: str
    address: str
    sha256: bytes
    format: ContentFormat
    content: bytes
    facts: bytes

    def shared_rows(self, entry: Entry) -> Iterable[Hashable]:
        """All mail of an inbox is numbered by one row, and equal bytes are kept once."""
        return [("inboxes", self.inbox), ("blobs", entry.workspace, self.sha256)]

    def rows(self, entry: Entry, verdict: Verdict) -> Iterable[Struct]:
        """Keep the first; of a copy, which is acknowledged as well, note that it came."""
        if isinstance(verdict, CopyOf):
            yield copy_row(entry, self.id, verdict)
        if not isinstance(verdict, FirstClaim):
            return
        yield BlobRow(entry.workspace, self.sha256, self.content, self.id)
        yield MailRow(
            key=self.id,
            workspace=entry.workspace,
            digester=lane_of(self.format, inbox=self.inbox, source=entry.source),
            state=int(State.DUE if self.inbox else State.DONE),
            deadline_s=DIGEST_DEADLINE_S,
            inbox=self.inbox,
            address=self.address,
            source=entry.source,
            account=entry.account,
            arrival=entry.id,
            sha256=self.sha256,
            format=str(self.format),
            mail_bytes=len(self.content),
            facts=self.facts,
        )


def copy_row(entry: Entry, mail: bytes, verdict: CopyOf) -> CopyRow:
    """Note that a mail is a copy of another.

    Its position is made of its own id, since one arrival may bring a mail to many inboxes, and is
    below zero, where no event stands.
    """
    position = -1 - int.from_bytes(sha256(mail).digest()[:4], "big") // 2
    return CopyRow(entry.id, position, verdict.owner, verdict.recognised_by)


def lane_of(format_: str, *, inbox: str, source: str) -> str:
    """Name the lane in which a mail is read: that of its inbox where it is whole.

    Mail that has to be fetched has the lane of its source: a provider's API that hangs keeps no
    other mail waiting, but that of the few sources which have the same lane.
    """
    if format_ == ContentFormat.FETCH:
        return FETCH_LANES[_number_of(source) % len(FETCH_LANES)]
    return LANES[_number_of(inbox) % len(LANES)]


@lru_cache(maxsize=LANES_REMEMBERED)
def _number_of(name: str) -> int:
    return int.from_bytes(sha256(name.encode()).digest()[:2], "big")


def mail_items(
    workspace: str,
    account: str,
    mail: IncomingMail,
    inboxes: Sequence[KnownInbox],
    *,
    new_id: Callable[[], bytes],
) -> tuple[DeliveryItem | MailItem, ...]:
    """Make what an arrival claims for one mail: its delivery, where that has an id, and each inbox.

    Where no inbox takes it, it is kept all the same, for an operator to adopt.
    """
    format_, content = stored_content(mail.content)
    digest = sha256(content).digest()
    facts = stored_facts(mail.facts)
    fingerprint = Fingerprint(digest[:16])
    items: list[DeliveryItem | MailItem] = []
    if mail.delivery_id:
        scope = KeyScope(workspace, "mail", account)
        key = scope.key(["delivery", mail.delivery_id])
        items.append(DeliveryItem(new_id(), key, fingerprint))
    for place in inboxes or [KnownInbox(NO_INBOX, workspace, "")]:
        inputs = [str(format_), digest.hex(), place.address if place.id else account]
        key = KeyScope(workspace, "mail", place.id).key(["mail", *inputs])
        items.append(
            MailItem(
                id=new_id(),
                key=key,
                fingerprint=fingerprint,
                inbox=place.id,
                address=place.address,
                sha256=digest,
                format=format_,
                content=content,
                facts=facts,
            )
        )
    return tuple(items)
