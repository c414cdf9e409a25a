"""What the API answers, as records; `json` has all of it, further fields included."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxRecord:
    """An address that collects mail."""

    id: str
    address: str
    expires_at: str | None
    seq: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    json: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRecord:
    """A mail that came to an inbox; its sender chose every text in it."""

    id: str
    seq: int
    inbox: str
    sender: str
    subject: str
    text: str
    html: str | None
    received_at: str
    # How often the same mail came again, by when it was listed.
    copies: int = 0
    json: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageList:
    """Messages behind a number, and what proves that there were no others."""

    messages: tuple[MessageRecord, ...]
    next: int
    # Mails that were accepted and cannot be shown yet; nearly always they are in a moment.
    unread: int = 0
    listening_since: str | None
    refused: tuple[Mapping[str, Any], ...]

    def __iter__(self) -> Iterator[MessageRecord]:
        return iter(self.messages)

    def __len__(self) -> int:
        return len(self.messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactRecord:
    """A code, a link or a state that was found; its `value` is given to who consumes it."""

    id: str
    kind: str
    sender: str | None = None
    received_at: str | None = None
    guard: str | None = None
    value: str | None = field(default=None, repr=False)
    json: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectationRecord:
    """A code, a link or a state that an inbox should get by some time."""

    id: str
    state: str
    artifact: ArtifactRecord | None = None
    candidates: int = 0
    resends_left: int = 0
    json: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumptionRecord:
    """A value that was taken, for as long as its lease lasts; say what became of it."""

    expectation: str
    consume_key: str
    artifact: ArtifactRecord
    token: Any = field(repr=False)
    lease_until: str | None
    json: Mapping[str, Any] = field(repr=False)

    @property
    def value(self) -> str:
        """The code, the link or the state."""
        assert self.artifact.value is not None, "a consumed artifact has its value"
        return self.artifact.value


@dataclass(frozen=True, slots=True, kw_only=True)
class SendRecord:
    """One mail to one recipient, and where it stands."""

    id: str
    key: str
    state: str
    to: str
    # Whether the server knew it already, under the same key.
    is_replayed: bool = False
    json: Mapping[str, Any] = field(repr=False)


def record_of(kind: type[R], shown: Mapping[str, Any], **given: Any) -> R:
    """Make a record of what the API shows; what it leaves out has its default."""
    names = {one.name for one in fields(kind)}  # type: ignore[arg-type]
    known = {name: shown[name] for name in object_of(shown) if name in names}
    return kind(**{**known, "json": shown, **given})


def object_of(shown: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give what the API shows as it is, where it is an object."""
    if not isinstance(shown, Mapping):
        raise TypeError(f"an object was expected, not {type(shown).__name__}")
    return shown


def message_of(shown: Mapping[str, Any], *, copies: int = 0) -> MessageRecord:
    sender = shown.get("from") or {}
    return record_of(
        MessageRecord,
        shown,
        sender=sender.get("address") or "",
        subject=shown.get("subject") or "",
        text=shown.get("text") or "",
        html=shown.get("html"),
        copies=copies,
    )


def expectation_of(shown: Mapping[str, Any]) -> ExpectationRecord:
    artifact = shown.get("artifact")
    record = None if artifact is None else artifact_of(artifact)
    return record_of(ExpectationRecord, shown, artifact=record)


def artifact_of(shown: Mapping[str, Any]) -> ArtifactRecord:
    guard = shown.get("guard")
    word = guard.get("verdict") if isinstance(guard, Mapping) else guard
    return record_of(ArtifactRecord, shown, guard=word)


def consumption_of(shown: Mapping[str, Any], expectation: str, key: str) -> ConsumptionRecord:
    return record_of(
        ConsumptionRecord,
        shown,
        expectation=expectation,
        consume_key=key,
        artifact=artifact_of(shown["artifact"]),
        token=shown.get("token"),
        lease_until=shown.get("lease_until"),
    )
