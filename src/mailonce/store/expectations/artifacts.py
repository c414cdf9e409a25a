"""Artifacts: each value once for a subject while it is valid, sealed."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection, select, update

from mailonce.core.expectations.artifact import SealedArtifact
from mailonce.core.extraction.extraction import ArtifactKind
from mailonce.store.dialects.row_locks import lock_rows
from mailonce.store.dialects.upsert import insert_unless
from mailonce.store.schema.expectation_tables import ARTIFACTS

_A = ARTIFACTS.c
IDENTITY = ("workspace", "subject", "kind", "digest", "generation")
_READ = [column for column in ARTIFACTS.c if column.name in SealedArtifact.__struct_fields__]
# Each round somebody else has made the same one.
RACES_MAX = 5


class NewArtifact(NamedTuple):
    """A value that was found: its hashes, the one to be kept first, and its sealed form."""

    id: bytes
    workspace: str
    subject: str
    kind: ArtifactKind
    digests: tuple[bytes, ...]
    sealed: bytes


def ensure(tx: Connection, wanted: NewArtifact, *, now_ms: int) -> bytes:
    """Give the id of the artifact that a value is, making one where none is valid."""
    for _ in range(RACES_MAX):
        known = _equals(tx, wanted)
        valid = [one for one in known if one.is_valid(now_ms)]
        if valid:
            return valid[0].id
        own = [one.generation for one in known if one.digest == wanted.digests[0]]
        row = {
            "id": wanted.id,
            "workspace": wanted.workspace,
            "subject": wanted.subject,
            "kind": str(wanted.kind),
            "digest": wanted.digests[0],
            "generation": max(own, default=-1) + 1,
            "made_ms": now_ms,
            "token": 0,
            "sealed": wanted.sealed,
        }
        if insert_unless(tx, ARTIFACTS, row, unique=IDENTITY):
            return wanted.id
    raise AssertionError("an artifact that others make all the time is valid")


def _equals(tx: Connection, wanted: NewArtifact) -> list[SealedArtifact]:
    """List the artifacts of this value, the latest first."""
    query = select(*_READ).where(
        _A.workspace == wanted.workspace,
        _A.subject == wanted.subject,
        _A.kind == str(wanted.kind),
        _A.digest.in_(wanted.digests),
    )
    return [_read(row) for row in tx.execute(query.order_by(_A.made_ms.desc(), _A.id))]


def get(tx: Connection, id_: bytes) -> SealedArtifact | None:
    row = tx.execute(select(*_READ).where(_A.id == id_)).first()
    return None if row is None else _read(row)


def next_token(tx: Connection, id_: bytes) -> int:
    """Lock an artifact, and give the number of its next consumption."""
    lock_rows(tx, ARTIFACTS, {(id_,)})
    raised = update(ARTIFACTS).where(_A.id == id_).values(token=_A.token + 1).returning(_A.token)
    token: int | None = tx.scalar(raised)
    assert token is not None, "an artifact that is offered is there"
    return token


def _read(row: Sequence[object]) -> SealedArtifact:
    fields = dict(zip((column.name for column in _READ), row, strict=True))
    for name in ("id", "digest", "sealed"):
        value = fields[name]
        fields[name] = None if value is None else bytes(value)  # type: ignore[call-overload]
    fields["kind"] = ArtifactKind(str(fields["kind"]))
    return SealedArtifact(**fields)  # type: ignore[arg-type]
