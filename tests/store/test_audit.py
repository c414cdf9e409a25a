"""The audit log: an entry for each change that was committed, and for no other."""

import pytest

from mailonce.clock import Clock
from mailonce.core.access import Caller, Scope
from mailonce.manage.audit import begin_change
from mailonce.store import audit
from mailonce.store.audit import ACTING, AuditEntry
from mailonce.store.configuration import workspaces
from mailonce.store.configuration.workspaces import Workspace
from mailonce.store.dialects.contract import Database, Tx

KEY = Caller("default", Scope.OPERATOR, "key_1")


@pytest.fixture(autouse=True)
def nobody_acts() -> None:
    ACTING.set(None)


async def entries_of(database: Database, workspace: str = "default") -> list[AuditEntry]:
    return await database.read(
        lambda tx: audit.page(
            tx,
            workspace,
            by=None,
            key_ids=(),
            object_=None,
            since_ms=None,
            until_ms=None,
            below=None,
            limit=100,
        )
    )


def making(name: str) -> Workspace:
    return Workspace(f"ws_{name}", name, 1)


async def test_a_change_and_its_entry_are_committed_together(database: Database) -> None:
    begin_change(Clock(), KEY, "POST /v1/workspaces", "shop")

    def fail(tx: Tx) -> None:
        workspaces.put(tx, making("shop"))
        raise LookupError

    with pytest.raises(LookupError):
        await database.write(fail)
    assert await entries_of(database) == []

    await database.write(lambda tx: workspaces.put(tx, making("shop")))
    # A request may need several transactions; it is one change.
    await database.write(lambda tx: workspaces.put(tx, making("other")))

    [entry] = await entries_of(database)
    assert (entry.by, entry.operation, entry.object) == ("key_1", "POST /v1/workspaces", "shop")
    assert await entries_of(database, "another") == []


async def test_a_transaction_that_writes_nothing_has_no_entry(database: Database) -> None:
    begin_change(Clock(), KEY, "DELETE /v1/workspaces/{id}", "shop")

    await database.write(lambda tx: workspaces.find(tx, "shop"))

    assert await entries_of(database) == []


async def test_what_nobody_asked_for_has_no_entry(database: Database) -> None:
    await database.write(lambda tx: workspaces.put(tx, making("shop")))

    assert await entries_of(database) == []
