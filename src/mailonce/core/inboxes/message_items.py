"""A message in the group commit: what was read from a mail, kept once in its inbox."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from msgspec import Struct

from mailonce.core.events.key import Fingerprint, Key, KeyScope
from mailonce.core.inboxes.mail_items import BlobRow, copy_row
from mailonce.core.ledger.claim import CopyOf, FirstClaim, Verdict
from mailonce.core.ledger.entry import Entry


class MessageRow(Struct, frozen=True, gc=False):
    """A message; the columns beside its document are those that queries look at."""

    id: str
    workspace: str
    inbox: str
    seq: int
    mail: bytes
    accepted_ms: int
    # The Message-ID of its headers, and what its thread is known by.
    message_id: str
    thread: str
    kind: str
    sender: str
    subject: str
    document: bytes


class AttachmentRow(Struct, frozen=True, gc=False):
    message: str
    position: int
    workspace: str
    id: str
    sha256: bytes
    name: str
    type: str
    attachment_bytes: int
    content_id: str | None


class FetchedContent(Struct, frozen=True, gc=False):
    """What was fetched of a mail takes the place of where it was to be fetched."""

    sha256: bytes
    format: str
    content: bytes


class DigestedRow(Struct, frozen=True, gc=False):
    """A mail was read: it is this message, or a copy of it; and what was fetched for that."""

    mail: bytes
    message: str
    sha256: bytes | None = None
    format: str | None = None
    mail_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class MessageItem:
    """What was read from one mail; its id is that of the mail, so that a second reading knows it.

    A mail whose content its inbox has already is a copy of that message.
    """

    row: MessageRow
    attachments: tuple[AttachmentRow, ...] = ()
    blobs: tuple[BlobRow, ...] = ()
    # None where the mail was handed over whole.
    fetched: FetchedContent | None = None

    @property
    def id(self) -> bytes:
        return self.row.mail

    @property
    def key(self) -> Key:
        return KeyScope(self.row.workspace, "message", self.row.inbox).key([self.row.id])

    @property
    def fingerprint(self) -> Fingerprint:
        """The id is made of the content: who has the same key says the same."""
        return Fingerprint(self.key)

    def shared_rows(self, entry: Entry) -> Iterable[Hashable]:
        """Equal attachments are kept once."""
        return [("blobs", entry.workspace, blob.sha256) for blob in self._all_blobs]

    def rows(self, entry: Entry, verdict: Verdict) -> Iterable[Struct]:
        """Keep the first; of every mail, note which message it is."""
        if isinstance(verdict, CopyOf):
            yield copy_row(entry, self.row.mail, verdict)
        if isinstance(verdict, FirstClaim):
            yield from self.blobs
            yield self.row
            yield from self.attachments
        if self.fetched is None:
            yield DigestedRow(self.row.mail, self.row.id)
            return
        yield BlobRow(self.row.workspace, self.fetched.sha256, self.fetched.content)
        size = len(self.fetched.content)
        yield DigestedRow(
            self.row.mail, self.row.id, self.fetched.sha256, self.fetched.format, size
        )

    @property
    def _all_blobs(self) -> tuple[BlobRow, ...]:
        if self.fetched is None:
            return self.blobs
        raw = BlobRow(self.row.workspace, self.fetched.sha256, self.fetched.content)
        return (*self.blobs, raw)
