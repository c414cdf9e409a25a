"""What comes in one turn goes step by step together, and each keeps its own fate."""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.events.event import EventType
from mailonce.manage.records import source_of
from mailonce.pipeline.drive_flows import drive, drive_together
from mailonce.pipeline.receive import (
    FetchKey,
    FindSource,
    Flow,
    Offload,
    Pause,
    RecordEntry,
    Reply,
    Step,
    receive,
)
from mailonce.settings import Settings, SourceSettings
from mailonce.testing import Happening, Post, make_simulators
from mailonce.wiring import build_service


def arrival_of(post: Post, now_ms: int) -> Arrival:
    headers = {name.lower(): value for name, value in post.headers.items()}
    return Arrival(method="POST", headers=headers, body=post.body, now_ms=now_ms)


@dataclass
class Line:
    """A connection that keeps its answer, and what it would have to wait for."""

    number: int
    answers: dict[int, Reply]
    waiting: dict[int, Step]

    def answer(self, reply: Reply) -> None:
        self.answers[self.number] = reply

    def wait(self, flow: Flow, step: Step) -> None:
        del flow
        self.waiting[self.number] = step


async def test_each_has_its_own_fate(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, admin_key="a-key-for-the-tests")
    simulators = make_simulators()
    simulator, sns = simulators["sesmetric"], simulators["ses"]
    now_s = int(time.time())

    def one(name: str) -> Post:
        happening = Happening(name, EventType.DELIVERED, "m-1", "ann@example.net", now_s)
        return simulator.post([happening], now_s=now_s)

    service = await build_service(settings)
    try:
        await service.start()
        source = source_of("ses", SourceSettings(**simulator.settings()))
        topics = sns.settings()["topic_arns"]
        needs_key = source_of("sns", SourceSettings(provider="ses", topic_arns=topics))
        no_provider = source_of("gone", SourceSettings(provider="gone", secret="s3cret"))
        sources = {one.name: one for one in (source, needs_key, no_provider)}
        service.receiving.known_source = sources.get
        now_ms = service.clock.now_ms()
        replies: dict[int, Reply] = {}
        waiting: dict[int, Step] = {}

        good = [arrival_of(one(name), now_ms) for name in ("evt-1", "evt-2")]
        forged = Arrival(method="POST", headers=good[0].headers, body=good[1].body, now_ms=now_ms)
        happening = Happening("evt-3", EventType.DELIVERED, "m-1", "ann@example.net", now_s)
        signed_elsewhere = arrival_of(sns.post([happening], now_s=now_s), now_ms)

        flows = [
            receive(service.receiving, name, arrival)
            for name, arrival in [
                ("ses", good[0]),
                ("ses", forged),
                ("sns", signed_elsewhere),
                ("gone", good[0]),
                ("ses", good[1]),
                ("none", good[1]),
            ]
        ]
        drive_together(
            service.receiving,
            [(flow, Line(number, replies, waiting)) for number, flow in enumerate(flows)],
        )
        async with asyncio.timeout(20):
            while len(replies) < 4:
                await asyncio.sleep(0.01)
        replies[5] = await drive(service.receiving, flows[5], waiting[5])
    finally:
        await service.stop()

    assert {number: reply.code for number, reply in replies.items()} == {
        0: 200, 1: 401, 3: 503, 4: 200, 5: 404,
    }  # fmt: skip
    assert [replies[number].body["status"] for number in (0, 4)] == ["accepted", "accepted"]
    assert replies[0].body["arrival"] != replies[4].body["arrival"]
    assert "not installed" in replies[3].body["detail"]
    # Who must wait goes on from where it stands.
    assert isinstance(waiting[2], FetchKey)
    assert waiting[5] == FindSource("none")
    assert "mailonce_unknown_sources_total 1.0" in service.metrics.render(is_named=False).decode()


async def test_a_large_body_is_looked_at_once_and_beside_the_event_loop(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, admin_key="a-key-for-the-tests")
    simulator = make_simulators()["sesmetric"]
    now_s = int(time.time())
    happening = Happening("evt-1", EventType.DELIVERED, "m-1", "ann@example.net", now_s)
    post = simulator.post([happening], now_s=now_s)
    service = await build_service(settings)
    await service.start()
    try:
        await service.manage.sources.put(
            source_of("ses", SourceSettings(**simulator.settings())), origin="api"
        )
        arrival = arrival_of(post, service.clock.now_ms())
        # A body that says how it is packed may be large, however short it is.
        packed = replace(arrival, headers={**arrival.headers, "content-encoding": "identity"})
        flow = receive(service.receiving, "ses", packed)
        steps = []
        step = next(flow)
        while not isinstance(step, RecordEntry):
            steps.append(type(step))
            step = flow.send(step.work() if isinstance(step, Offload) else None)
        flow.close()
    finally:
        await service.stop()

    assert steps == [Offload, Pause, Offload]
