"""Add a door: a way in beside HTTP, without a change in the tree (docs/extend.md shows it)."""

import asyncio
import time
from pathlib import Path
from typing import Any

import orjson

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.events.event import EventType
from mailonce.core.query import EventFilter
from mailonce.manage.records import source_of
from mailonce.pipeline.drive_flows import drive
from mailonce.pipeline.receive import receive
from mailonce.service import Service
from mailonce.settings import Settings, SourceSettings
from mailonce.testing import Happening, Post, make_simulator
from mailonce.views.events import list_events
from mailonce.views.paging import PageQuery
from mailonce.wiring import build_service


# docs: begin
class LineDoor:
    """Takes arrivals as lines of JSON on a socket, and answers each with a line."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Translate: bytes to an arrival, the reply to bytes. What it means is decided inside."""
        while line := await reader.readline():
            message = orjson.loads(line)
            arrival = Arrival(
                method="POST",
                headers=message["headers"],
                body=message["body"].encode(),
                now_ms=self._service.clock.now_ms(),
            )
            flow = receive(self._service.receiving, message["source"], arrival)
            reply = await drive(self._service.receiving, flow)
            writer.write(orjson.dumps({"code": reply.code, **reply.body}) + b"\n")
            await writer.drain()
        writer.close()


# docs: end


async def say(post: Post, port: int) -> dict[str, Any]:
    headers = {name.lower(): value for name, value in post.headers.items()}
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    message = {"source": "ses", "headers": headers, "body": post.body.decode()}
    writer.write(orjson.dumps(message) + b"\n")
    await writer.drain()
    answer: dict[str, Any] = orjson.loads(await reader.readline())
    writer.close()
    return answer


async def test_a_door_hands_arrivals_to_the_same_flow(tmp_path: Path) -> None:
    simulator = make_simulator("sesmetric")
    service = await build_service(Settings(data_dir=tmp_path, admin_key="a-key-for-the-tests"))
    await service.start()
    source = source_of("ses", SourceSettings(**simulator.settings()))
    await service.manage.sources.put(source, origin="api")
    door = await asyncio.start_server(LineDoor(service).serve, "127.0.0.1", 0)
    port = door.sockets[0].getsockname()[1]
    now_s = int(time.time())
    happening = Happening("evt-1", EventType.BOUNCED, "m-1", "ann@example.net", now_s)
    post = simulator.post([happening], now_s=now_s)
    forged = Post({**post.headers, "X-SESMetric-Signature": "0" * 64}, post.body)

    answers = await asyncio.gather(*(say(post, port) for _ in range(20)))
    refused = await say(forged, port)
    page = await list_events(service.database, "default", EventFilter(), page=PageQuery(10))

    assert [answer["code"] for answer in answers] == [200] * 20
    assert sum(answer["new"] for answer in answers) == 1
    assert refused["code"] == 401
    assert [event["type"] for event in page["data"]] == ["bounced"]
    door.close()
    await service.stop()
