"""Both clients behind a proxy that cuts each stream as soon as it is open."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from mailonce import AsyncClient, Client
from mailonce.client.flows import CUT_STREAMS_MAX
from tests.client.test_flows import message


class Cutting(BaseHTTPRequestHandler):
    """Ends streams behind their head, and has a message for whoever asks with a wait."""

    paths: list[str]

    def do_GET(self) -> None:
        self.paths.append(self.path)
        if "/stream" in self.path:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            return
        mails = [message(7)] if "wait=" in self.path else []
        page = {"data": mails, "next": 7 * len(mails), "listening_since": None, "refused": []}
        body = json.dumps(page).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def cutting_server() -> Iterator[tuple[str, list[str]]]:
    paths: list[str] = []
    kind = type("Kind", (Cutting,), {"paths": paths})
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", paths
        server.shutdown()
        thread.join()


def wait_blocking(url: str) -> int:
    with Client(url, "key") as client:
        return client.wait_for_message("inb_1", timeout_s=60).seq


def wait_awaited(url: str) -> int:
    async def work() -> int:
        async with AsyncClient(url, "key") as client:
            return (await client.wait_for_message("inb_1", timeout_s=60)).seq

    return asyncio.run(work())


@pytest.mark.parametrize("wait", [wait_blocking, wait_awaited])
def test_streams_that_are_cut_at_once_are_given_up_for_waits(wait: Any) -> None:
    with cutting_server() as (url, paths):
        assert wait(url) == 7

    assert sum("/stream" in path for path in paths) == CUT_STREAMS_MAX
    assert len(paths) <= 2 * CUT_STREAMS_MAX + 2
