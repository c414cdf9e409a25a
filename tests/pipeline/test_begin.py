"""What comes in one turn goes step by step together, and each keeps its own fate."""

import time
from pathlib import Path

from mailonce.configured import source_of
from mailonce.core.arrival import Arrival
from mailonce.core.entry import Answer, Status
from mailonce.core.event import EventType
from mailonce.pipeline.receive import Pending, Reply, begin
from mailonce.settings import Settings, SourceSettings
from mailonce.testing import Happening, Post, make_simulators
from mailonce.wiring import build_service


def arrival_of(post: Post, now_ms: int) -> Arrival:
    headers = {name.lower(): value for name, value in post.headers.items()}
    return Arrival(method="POST", headers=headers, body=post.body, now_ms=now_ms)


async def test_each_has_its_own_fate(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, admin_key="a-key-for-the-tests")
    simulators = make_simulators()
    simulator, sns = simulators["sesmetric"], simulators["ses"]
    now_s = int(time.time())

    def one(name: str) -> Post:
        told = Happening(name, EventType.DELIVERED, "m-1", "ann@example.net", now_s)
        return simulator.post([told], now_s=now_s)

    service = await build_service(settings)
    try:
        source = source_of("ses", SourceSettings(**simulator.settings()))
        topics = sns.settings()["topic_arns"]
        needs_key = source_of("sns", SourceSettings(provider="ses", topic_arns=topics))
        no_provider = source_of("gone", SourceSettings(provider="gone", secret="s3cret"))
        now_ms = service.clock.now_ms()
        good = [arrival_of(one(name), now_ms) for name in ("evt-1", "evt-2")]
        forged = Arrival(method="POST", headers=good[0].headers, body=good[1].body, now_ms=now_ms)
        told = Happening("evt-3", EventType.DELIVERED, "m-1", "ann@example.net", now_s)
        signed_elsewhere = arrival_of(sns.post([told], now_s=now_s), now_ms)

        first, refused, waits, strange, second = begin(
            service.door,
            [
                (source, good[0]),
                (source, forged),
                (needs_key, signed_elsewhere),
                (no_provider, good[0]),
                (source, good[1]),
            ],
        )
    finally:
        await service.stop()

    assert isinstance(first, Pending)
    assert isinstance(second, Pending)
    assert first.entry.id != second.entry.id
    assert [one.entry.arrival_key for one in (first, second)] == ["evt-1", "evt-2"]
    assert first.reply_to(Answer(Status.ACCEPTED, 1, 1)).body["status"] == "accepted"
    assert isinstance(refused, Reply)
    assert refused.code == 401
    assert waits is None
    assert strange is None
