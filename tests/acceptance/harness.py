"""A real server in a process of its own, and a provider that signs as SESMetric does."""

import hmac
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx

from tests import forking
from tests.forking import PYTHONPATH
from tests.servers import free_port, wait_for

ADMIN_KEY = "admin-key-for-tests-only"
SECRET = "s3cret"
# Made once: a client reads the machine's certificates when it is made, and that takes longer than
# a request. Each request still has a connection of its own, so that a restart is no surprise.
HTTP = httpx.Client(verify=False, limits=httpx.Limits(max_keepalive_connections=0))
# One value for all copies of an event, however long a test takes.
A_MINUTE_AGO = int(time.time()) - 60

SETTINGS = f"""
[sources.main]
provider = "sesmetric"
secret = "{SECRET}"

[sources.hooks]
provider = "postmark"
basic = "hook:word"
"""


@dataclass
class Server:
    """`mailonce serve` as a process of its own, with its data directory and log."""

    folder: Path
    database: str
    settings: str = SETTINGS
    environment: Mapping[str, str] = field(default_factory=dict)
    launcher: Sequence[str] = ("-m", "mailonce")
    # Further ones of `mailonce serve`.
    options: Sequence[str] = ()
    port: int = field(default_factory=free_port)
    # 0: any, for tests that send no mail.
    smtp_port: int = 0
    # Start a new interpreter, as a user does, instead of a fork of one that has imported it all.
    is_cold: bool = False
    process: "forking.Fork | subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return (self.folder / "server.log").read_text(errors="replace")

    @property
    def pid(self) -> int:
        assert self.process is not None, "the server was not started"
        return self.process.pid

    def start(self) -> "Server":
        if self.process is None or self.process.poll() is not None:
            self.spawn()
        wait_for(self.is_ready, what=f"the server: {self.log[-2000:]}")
        return self

    def spawn(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "mailonce.toml").write_text(self.settings)
        arguments = [*self.launcher, "serve", "--port", str(self.port)]
        arguments += ["--smtp-port", str(self.smtp_port), *self.options]
        environment = {
            **os.environ,
            "MAILONCE_ADMIN_KEY": ADMIN_KEY,
            "MAILONCE_DATABASE": self.database,
            "PYTHONPATH": PYTHONPATH,
            **self.environment,
        }
        path = self.folder / "server.log"
        path.touch()
        if not self.is_cold:
            command = forking.Command(arguments, str(self.folder), str(path), environment)
            self.process = forking.start(command)
            return
        with path.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                env=environment,
            )

    def is_ready(self) -> bool:
        assert self.process is not None, "the server was not started"
        if self.process.poll() is not None:
            raise AssertionError(f"the server ended: {self.log[-2000:]}")
        try:
            return HTTP.get(f"{self.url}/readyz", timeout=20).status_code == 200
        except httpx.TransportError:
            return False

    def stop(self, sent: signal.Signals = signal.SIGTERM, *, seconds: float = 60) -> int:
        """Send a signal and wait for the end; give the exit code."""
        assert self.process is not None, "the server was not started"
        if self.process.poll() is None:
            self.process.send_signal(sent)
        return self.process.wait(seconds)

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    def post(
        self,
        body: bytes | dict[str, Any],
        *,
        source: str = "main",
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 60,
    ) -> httpx.Response:
        """Post a webhook, signed unless headers are given."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return HTTP.post(
            f"{self.url}/in/{source}",
            content=raw,
            headers=signed(raw) if headers is None else dict(headers),
            timeout=timeout_s,
        )

    def api(self, path: str, *, method: str = "GET", **arguments: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {ADMIN_KEY}", **arguments.pop("headers", {})}
        return HTTP.request(method, self.url + path, headers=headers, timeout=60, **arguments)

    def get(self, path: str, **params: Any) -> Any:
        answer = self.api(path, params=params)
        assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text}"
        return answer.json()

    def all_events(self, **params: Any) -> list[dict[str, Any]]:
        """Read every page of the events."""
        events: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            page = self.get(
                "/v1/events", limit=1000, **({"cursor": cursor} if cursor else {}), **params
            )
            events += page["data"]
            cursor = page["next"]
            if cursor is None:
                return events

    def state(self) -> dict[str, Any]:
        """Everything that order and copies must not change, as the API shows it."""
        events = self.all_events()
        messages = {
            event["message_id"]: self.get(f"/v1/messages/{event['message_id']}")
            for event in events
            if event["message_id"]
        }
        for message in messages.values():
            for recipient in message["recipients"]:
                recipient.pop("timeline", None)
        return {
            "keys": sorted(event["key"] for event in events),
            "messages": messages,
            "suppressions": [
                {**row, "causes": [{**c, "event": None} for c in row["causes"]]}
                for row in self.get("/v1/suppressions", limit=1000)["data"]
            ],
            "stats": sorted(
                (row["source"], row["type"], row["count"])
                for row in self.get("/v1/stats", limit=1000)["data"]
            ),
        }


@contextmanager
def running(server: Server) -> Iterator[Server]:
    """Start a server and see that it ends."""
    try:
        yield server.start()
    finally:
        if server.process is not None and server.process.poll() is None:
            server.process.send_signal(signal.SIGCONT)
            server.kill()


def signed(
    body: bytes, *, secret: str = SECRET, seconds: float | str | None = None
) -> dict[str, str]:
    """Sign a body as seed 001 does."""
    timestamp = str(int(time.time()) if seconds is None else seconds)
    digest = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, sha256).hexdigest()
    return {"X-SESMetric-Timestamp": timestamp, "X-SESMetric-Signature": digest}


def event(number: int | str, type_: str = "delivery", **fields: Any) -> dict[str, Any]:
    """A SESMetric event, of a message and a recipient of its own unless told otherwise."""
    return {
        "id": f"evt_{number}",
        "type": type_,
        "message_id": f"m{number}",
        "recipient": f"a{number}@example.net",
        "timestamp": A_MINUTE_AGO,
        **fields,
    }
