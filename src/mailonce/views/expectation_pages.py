"""Lists of expectations and of consumptions."""

from mailonce.core.access import Caller
from mailonce.core.expectations.consumption import ConsumptionState
from mailonce.core.expectations.expectation import ExpectationState
from mailonce.store.dialects.contract import Database, Tx
from mailonce.store.expectations import consumptions, expectations, standing
from mailonce.store.expectations.standing import ExpectationStanding
from mailonce.views.expectations import (
    ConsumptionJson,
    ExpectationJson,
    consumption_json,
    expectation_json,
)
from mailonce.views.paging import Page, PageQuery

# Each has mails and consumptions of its own to look at.
ROWS_MAX = 200


async def list_expectations(
    database: Database,
    caller: Caller,
    page: PageQuery,
    *,
    state: ExpectationState | None,
    inbox: str | None,
    now_ms: int,
) -> Page[ExpectationJson]:
    """List expectations, the newest first; `state` is as it was last settled."""
    page = page.at_most(ROWS_MAX)
    after = page.position(lambda id_: id_, bytes)

    def work(tx: Tx) -> list[ExpectationStanding]:
        rows = expectations.page(
            tx, caller.workspace, after=after, limit=page.limit + 1, inbox=inbox, state=state
        )
        known = standing.load_all(tx, [row.id for row in rows])
        return [known[row.id] for row in rows if row.id in known]

    rows = await database.read(work)
    return page.of(
        rows,
        lambda one: expectation_json(caller, one, one.settle(now_ms=now_ms)),
        lambda one: (one.expectation.id,),
    )


async def list_consumptions(
    database: Database,
    workspace: str,
    page: PageQuery,
    *,
    state: ConsumptionState | None,
    now_ms: int,
) -> Page[ConsumptionJson]:
    """List consumptions, the newest first."""
    after = page.position(lambda id_: id_, bytes)
    rows = await database.read(
        lambda tx: consumptions.page(
            tx, workspace, after=after, limit=page.limit + 1, state=state, now_ms=now_ms
        )
    )
    return page.of(rows, lambda one: consumption_json(one, now_ms=now_ms), lambda one: (one.id,))
