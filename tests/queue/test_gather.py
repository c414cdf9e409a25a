"""Results wait for company, but never for long, and not at all once there are enough of them."""

import pytest

from mailonce.core.work.states import State
from mailonce.queue import finish
from tests.queue.conftest import Works


async def test_enough_results_are_written_at_once_and_the_rest_before_the_end(
    works: Works, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finish, "GATHER_S", 600.0)
    await works.add_route(concurrency=100)
    worker = await works.start()
    await works.owe(finish.ENOUGH + 6)

    async def enough() -> bool:
        return (await works.states()).count(State.DONE) >= finish.ENOUGH

    await works.until(enough)
    await works.until(lambda: len(works.endpoint.requests) == finish.ENOUGH + 6)
    await worker.stop()

    assert await works.states() == [State.DONE] * (finish.ENOUGH + 6)
