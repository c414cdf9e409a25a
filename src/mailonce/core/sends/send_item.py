"""Sends as a noun: what the group commit claims and writes for each recipient's mail."""

from collections.abc import Hashable, Iterable

from msgspec import Struct

from mailonce.core.events.key import Fingerprint, Key
from mailonce.core.ledger.claim import FirstClaim, Verdict
from mailonce.core.ledger.entry import Entry


class SendRow(Struct, frozen=True, gc=False):
    """A send as it is submitted."""

    # The key of its claim, too; as a UUID, what ties it to a provider's calls and events.
    key: Key
    id: bytes
    workspace: str
    sender: str
    # Where the content lies, which all recipients of a request may share.
    content: bytes
    state: int
    send_state: int
    lane: int
    made_ms: int
    due_ms: int
    deadline_ms: int
    # As the caller knows it.
    send_key: str
    fingerprint: Fingerprint
    parts: bytes
    # Bare and casefolded; then as it was given.
    recipient: str
    address: str
    name: str
    stream: str
    template: str | None
    template_version: int | None
    cause_id: str | None
    error: str | None
    # It goes to a suppressed address, too.
    is_forced: bool


class ContentRow(Struct, frozen=True, gc=False):
    """What is sent, but for the recipient."""

    id: bytes
    workspace: str
    body: bytes


class RequestRow(Struct, frozen=True, gc=False):
    """Which mails a key stands for that the caller gave."""

    key: Key
    workspace: str
    fingerprint: Fingerprint


class ActRow(Struct, frozen=True, gc=False):
    """What somebody did to a send as it was submitted."""

    send: Key
    id: bytes
    at_ms: int
    act: str
    by: str
    reason: str | None


class SendItem(Struct, frozen=True, gc=False):
    """One recipient's mail on its way into the ledger."""

    row: SendRow
    content: ContentRow
    # None where the key was derived.
    request: RequestRow | None = None
    act: ActRow | None = None

    @property
    def id(self) -> bytes:
        return self.row.id

    @property
    def key(self) -> Key:
        return self.row.key

    @property
    def fingerprint(self) -> Fingerprint:
        return self.row.fingerprint

    def shared_rows(self, entry: Entry) -> Iterable[Hashable]:
        """Nobody else writes a send that does not exist yet."""
        del entry
        return ()

    def rows(self, entry: Entry, verdict: Verdict) -> Iterable[Struct]:
        """Keep the first; a copy and a conflict only hear what they are."""
        del entry
        if isinstance(verdict, FirstClaim):
            yield self.row
            yield self.content
            if self.request is not None:
                yield self.request
            if self.act is not None:
                yield self.act
