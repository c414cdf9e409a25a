"""The database itself refuses a second of what may be there once: message, artifact, holder."""

from typing import Any

import pytest
from sqlalchemy import Table, insert
from sqlalchemy.exc import IntegrityError

from mailonce.core.expectations.artifact import VALID_MS
from mailonce.core.extraction.extraction import ArtifactKind
from mailonce.errors import MailonceError
from mailonce.store.dialects.contract import Database, Tx
from mailonce.store.expectations import artifacts
from mailonce.store.expectations.artifacts import NewArtifact
from mailonce.store.schema.expectation_tables import ARTIFACTS, CONSUMPTIONS
from mailonce.store.schema.mail_tables import MESSAGES
from mailonce.store.schema.tables import CLAIMS

NOW_MS = 1_794_916_800_000
ARTIFACT = {
    "id": b"a" * 16, "workspace": "default", "subject": "inb_1", "kind": "code", "digest": b"d",
    "generation": 0, "made_ms": 0, "token": 0, "sealed": b"",
}  # fmt: skip
CONSUMPTION = {
    "id": b"c" * 16, "workspace": "default", "expectation": b"e", "artifact": b"a", "by": "key_1",
    "consume_key": b"k", "token": 1, "state": "leased", "leased_ms": 0, "lease_ms": 0,
    "holder": b"a",
}  # fmt: skip
MESSAGE = {
    "id": "msg_1", "workspace": "default", "inbox": "inb_1", "seq": 1, "mail": b"m",
    "accepted_ms": 0, "message_id": "", "thread": "", "kind": "mail", "sender": "", "subject": "",
    "document": b"{}",
}  # fmt: skip
CLAIM = {"key": b"k" * 16, "fingerprint": b"f" * 16, "owner": b"o" * 16}
# Each layer: a row, and another that differs in all but its key.
LAYERS: dict[str, tuple[Table, dict[str, Any], dict[str, Any]]] = {
    "delivery": (CLAIMS[0], CLAIM, {"owner": b"x" * 16}),
    "message": (MESSAGES, MESSAGE, {"seq": 2, "mail": b"n"}),
    "artifact": (ARTIFACTS, ARTIFACT, {"id": b"b" * 16}),
    "holder": (CONSUMPTIONS, CONSUMPTION, {"id": b"d" * 16, "consume_key": b"l", "by": "key_2"}),
    "consume key": (CONSUMPTIONS, CONSUMPTION, {"id": b"d" * 16, "holder": None}),
}


@pytest.mark.parametrize("layer", LAYERS)
async def test_a_second_one_is_refused(database: Database, layer: str) -> None:
    table, row, change = LAYERS[layer]

    def put(tx: Tx, **changes: Any) -> None:
        tx.execute(insert(table).values(**{**row, **changes}))

    await database.write(put)
    with pytest.raises(MailonceError) as refusal:
        await database.write(lambda tx: put(tx, **change))

    assert isinstance(refusal.value.__cause__, IntegrityError)


async def test_a_value_is_one_artifact_while_it_is_valid_and_another_long_after(
    database: Database,
) -> None:
    def ensure(tx: Tx, id_: bytes, at_ms: int, *digests: bytes) -> bytes:
        wanted = NewArtifact(id_, "default", "inb_1", ArtifactKind.CODE, digests, b"")
        return artifacts.ensure(tx, wanted, now_ms=at_ms)

    first = await database.write(lambda tx: ensure(tx, b"1" * 16, NOW_MS, b"old"))
    again = await database.write(lambda tx: ensure(tx, b"2" * 16, NOW_MS + 1, b"old"))
    rotated = await database.write(lambda tx: ensure(tx, b"3" * 16, NOW_MS + 1, b"new", b"old"))
    later = await database.write(lambda tx: ensure(tx, b"4" * 16, NOW_MS + VALID_MS, b"old"))

    assert (first, again, rotated, later) == (b"1" * 16, b"1" * 16, b"1" * 16, b"4" * 16)
