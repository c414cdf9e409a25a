"""What is wrong with one request of a turn costs that request alone."""

import asyncio
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from mailonce.edge.http.arrivals import Client, take_together
from mailonce.edge.http.request import ArrivalRequest
from mailonce.manage.settings_file import apply_settings
from mailonce.pipeline.receive import Flow, Reply, Step
from mailonce.settings import Settings, SourceSettings
from mailonce.wiring import build_service
from tests.acceptance.harness import SECRET, event, signed


@dataclass
class Line:
    """A connection that keeps its answer."""

    answers: dict[str, Reply]
    name: str

    def answer(self, reply: Reply) -> None:
        self.answers[self.name] = reply

    def wait(self, flow: Flow, step: Step) -> None:
        raise AssertionError(f"{flow} waits for {step}")


async def test_an_exception_costs_the_request_that_made_it(
    sqlite_template: Path, tmp_path: Path
) -> None:
    shutil.copy(sqlite_template, tmp_path / "m.db")
    source = SourceSettings(provider="sesmetric", secret=SECRET)
    settings = Settings(
        database=f"sqlite:///{tmp_path / 'm.db'}",
        data_dir=tmp_path,
        admin_key="admin-key-for-tests",
        sources={"main": source},
    )
    service = await build_service(settings)
    await apply_settings(service.manage, settings)
    await service.start()
    try:
        # The start refuses this; it stands for any mistake of ours.
        service.trusted_proxies = ("nginx",)
        replies: dict[str, Reply] = {}
        clients: dict[str, Client] = {"first": None, "broken": ("10.0.0.1", 1), "last": None}
        requests = []
        for name, client in clients.items():
            body = json.dumps(event(name)).encode()
            headers = {key.lower(): value for key, value in signed(body).items()}
            requests.append(
                (ArrivalRequest("/in/main", "", headers, body), client, Line(replies, name))
            )

        take_together(service, requests)
        async with asyncio.timeout(60):
            while len(replies) < len(clients):
                await asyncio.sleep(0.01)

        assert {name: reply.code for name, reply in replies.items()} == {
            "first": 200, "broken": 503, "last": 200,
        }  # fmt: skip
    finally:
        await service.stop()
