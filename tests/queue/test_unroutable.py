"""A route whose expression or mapping cannot deal with an event fails alone, and visibly."""

from typing import Any

import orjson
import pytest

from mailonce.core.deliveries.route import RouteKind
from mailonce.core.work.states import State
from mailonce.store.dialects.contract import Batch, Routing
from mailonce.store.work import polls
from tests.factories import make_body, make_entry, make_source, new_id
from tests.queue.conftest import Works

BOMB = "to_string([" * 26 + "@" + "])" * 26
FAT = {f"field-{number}": "v" * 2_000 for number in range(50)}


@pytest.mark.parametrize(
    ("fields", "word"),
    [({"expression": BOMB}, "steps"), ({"mapping": ["$.metadata"] * 100}, "bytes")],
    ids=["expression", "mapping"],
)
async def test_it_is_a_dead_letter_of_that_route_alone(
    works: Works, fields: dict[str, Any], word: str
) -> None:
    await works.add_route("/bomb", **fields)
    await works.add_route("/ok")
    await works.ledger.add_route(id="rte_poll", kind=RouteKind.POLL, url="", **fields)
    await works.start()

    await record(works, metadata=FAT)
    await works.until(works.letters)

    async def is_done() -> bool:
        return await works.states(route="rte_ok") == [State.DONE]

    await works.until(is_done)

    [letter] = await works.letters()
    assert (letter["route"], letter["reason"]) == ("rte_bomb", "unroutable")
    assert word in letter["last_error"]
    assert len(bytes(letter["raw"])) < 1_000
    assert works.endpoint.at("/bomb") == []
    assert len(works.endpoint.at("/ok")) == 1
    await works.database.write(lambda tx: polls.number(tx, "rte_poll", most=10))
    read = await works.database.read(
        lambda tx: polls.read_behind(tx, "rte_poll", after=0, limit=10, bytes_max=1 << 20)
    )
    [given] = [orjson.loads(row.body) for row in read.rows]
    assert (given["schema"], given["route_id"]) == ("mailonce.unroutable/1", "rte_poll")
    assert word in given["reason"]


async def record(works: Works, **fields: Any) -> None:
    ledger = works.ledger
    entry = make_entry(make_source(), make_body(**fields), now_ms=ledger.now_ms)
    head = await works.database.head()
    routing = Routing(head.configuration, {"default": list(ledger.routes.values())})
    await works.database.record(Batch(new_id(ledger.now_ms), [entry], routing=routing))
    for worker in works.workers:
        worker.wake(list(ledger.routes))
