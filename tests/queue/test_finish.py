"""A result that the database cannot hold concerns its own delivery alone."""

from functools import partial
from typing import Any

import pytest

from mailonce import Handlers
from mailonce.clock import Clock
from mailonce.core.deliveries.route import Route, RouteKind
from mailonce.core.work.job import AttemptOutcome, LeasedJob
from mailonce.core.work.states import State
from mailonce.net.http import GuardedClient
from mailonce.pipeline.deliver import deliver
from mailonce.pipeline.run_handler import handle
from mailonce.queue.deliveries import Runner
from mailonce.queue.finish import UNWRITABLE
from tests.queue.conftest import Works

HEALTHY = 40


@pytest.mark.parametrize("character", ["\x00", "\udce9"], ids=["NUL", "surrogate"])
async def test_any_text_of_a_handlers_error_can_be_kept(works: Works, character: str) -> None:
    handlers = Handlers()

    @handlers.on(name="poison", waits_s=())
    async def poison(event: dict[str, Any]) -> None:
        raise ValueError(f"cannot read {character} of {event['type']}" + "x" * 5_000)

    [handler] = handlers
    await works.ledger.add_route(id=handler.route.id, kind=RouteKind.HANDLER, url="", waits_s=())
    run = partial(handle, works.database, Clock(), handlers)
    await start(works, {RouteKind.HANDLER: Runner(run)})

    await works.owe(HEALTHY)
    await works.until_ended()

    letters = await works.letters()
    assert len(letters) == HEALTHY
    assert {letter["last_error"][:37] for letter in letters} == {
        "ValueError: cannot read \ufffd of delivered"[:37]
    }
    assert await works.states(route="rte_ok") == [State.DONE] * HEALTHY
    assert len(works.endpoint.at("/ok")) == HEALTHY


async def test_what_cannot_be_written_at_all_holds_nobody_up(works: Works) -> None:
    """A status that no column holds stands for whatever nobody has thought of."""

    async def absurd(_: Route, __: LeasedJob) -> AttemptOutcome:
        return AttemptOutcome(status=1 << 70, error="absurd")

    await works.ledger.add_route(id="rte_bad", kind=RouteKind.HANDLER, url="", waits_s=())
    await start(works, {RouteKind.HANDLER: Runner(absurd)})

    await works.owe(HEALTHY)

    async def are_done() -> bool:
        return await works.states(route="rte_ok") == [State.DONE] * HEALTHY

    await works.until(are_done)
    await works.until_ended()
    assert {row["error"] for row in await works.rows(route="rte_bad")} == {UNWRITABLE}
    assert len(works.endpoint.at("/ok")) == HEALTHY


async def start(works: Works, runners: dict[RouteKind, Runner]) -> None:
    """Start a worker that posts to one healthy route beside what else it runs."""
    await works.add_route("/ok")
    client = GuardedClient(allow_hosts=[works.endpoint.host])
    works.closing.append(client.close)
    webhook = Runner(partial(deliver, client, Clock()))
    # Nothing may be left to leases that run out.
    await works.start(runners={RouteKind.WEBHOOK: webhook, **runners}, lease_s=60)
