"""Who sends or waits for mail finds an inbox by its key, however many there are."""

import pytest
from sqlalchemy import Connection, Executable

from mailonce.store.dialects.contract import Database
from mailonce.store.inboxes import inboxes

NAMES = ["inb_1", "ann@in.test"]


@pytest.mark.parametrize(
    ("query", "given"),
    [
        (inboxes.FIND, {"workspace": "default", "ids": NAMES}),
        (inboxes.LEAD, {"addresses": NAMES}),
        (inboxes.RANGES, {"ids": NAMES}),
    ],
    ids=["find", "lead", "ranges"],
)
async def test_inboxes_are_found_by_their_key(
    database: Database, query: Executable, given: dict[str, object]
) -> None:
    def explain(tx: Connection) -> str:
        text = str(
            query.params(given).compile(tx, compile_kwargs={"literal_binds": True})  # type: ignore[attr-defined]
        )
        if database.name == "sqlite":
            return str(tx.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}").all())
        # Of an empty table it would read all there is.
        tx.exec_driver_sql("SET enable_seqscan = off")
        return str(tx.exec_driver_sql(f"EXPLAIN {text}").all())

    plan = await database.read(explain)

    for walk in ("SCAN inboxes", "SCAN addresses", "SCAN mails", "Seq Scan", "inboxes_workspace"):
        assert walk not in plan
