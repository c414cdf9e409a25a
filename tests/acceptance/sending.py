"""A server that sends to fakes of providers, which run beside the test on a loop of their own."""

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from mailonce.testing.fakes import Fake, FakeSmtpServer, make_fake
from tests.acceptance import sql
from tests.acceptance.harness import Server
from tests.net.conftest import Authority

MASTER_KEY = "shared by all servers"
MAIL = {"from": "Shop <shop@example.com>", "subject": "Your order", "text": "Thank you."}
AnyFake = Fake | FakeSmtpServer


@contextmanager
def running_loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@contextmanager
def running_fakes(*names: str) -> Iterator[dict[str, Any]]:
    """Start the fakes of these providers, by name; `smtp` is a mail server.

    Where there are several of one, a dash and a word follow the provider's name.
    """
    with running_loop() as loop:

        def run(work: Any) -> Any:
            return asyncio.run_coroutine_threadsafe(work, loop).result(30)

        fakes: dict[str, Any] = {}
        for name in names:
            provider = name.partition("-")[0]
            fake: AnyFake = FakeSmtpServer() if provider == "smtp" else make_fake(provider)
            fakes[name] = run(fake.__aenter__())
        try:
            yield fakes
        finally:
            for fake in fakes.values():
                run(fake.close())


@contextmanager
def served_certificates(fakes: Mapping[str, Any], authority: Authority) -> Iterator[dict[str, str]]:
    """Serve what receivers of webhooks fetch; give the environment in which it is found."""
    files = {
        urlsplit(url): pem
        for fake in fakes.values()
        if isinstance(fake, Fake)
        for url, pem in fake.simulator.certificates.items()
    }
    by_path = {url.path: pem for url, pem in files.items()}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        pem = by_path[head.split(b" ", 2)[1].decode()]
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n" % len(pem))
        writer.write(b"Connection: close\r\n\r\n" + pem)
        writer.close()

    with running_loop() as loop:
        starting = asyncio.start_server(serve, "127.0.0.1", 0, ssl=authority.server)
        server = asyncio.run_coroutine_threadsafe(starting, loop).result(30)
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        hosts = {url.hostname: address for url in files}
        yield {"MAILONCE_NET": json.dumps({"ca_file": str(authority.ca_file), "hosts": hosts})}
        loop.call_soon_threadsafe(server.close)


def sending_server(
    folder: Path,
    database_url: str,
    fakes: Mapping[str, Any],
    *,
    sends: Mapping[str, Any] | None = None,
    worker: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    sender: Mapping[str, Any] | None = None,
    of: Mapping[str, Mapping[str, Any]] | None = None,
    **named: Any,
) -> Server:
    """Make a server with a sender, and a source of webhooks, for each fake, under its name.

    `sender` are settings of all senders, `of` those of one, by its name.
    """
    quick = {"waits_s": [0.1] * 5, "timeout_s": 5, **(sender or {})}
    senders = {
        name: {**fake.sender_settings(), **quick, **(of or {}).get(name, {})}
        for name, fake in fakes.items()
    }
    sources = {
        name: {"provider": fake.simulator.provider, **fake.simulator.settings()}
        for name, fake in fakes.items()
        if isinstance(fake, Fake)
    }
    lease = {"lease_s": 1, "hold_s": 1, "lost_leases_max": 100, **(worker or {})}
    return Server(
        folder, database_url, settings="",
        environment={
            "MAILONCE_MASTER_KEY": MASTER_KEY,
            "MAILONCE_SENDERS": json.dumps(senders),
            "MAILONCE_SOURCES": json.dumps(sources),
            "MAILONCE_WORKER": json.dumps(lease),
            "MAILONCE_SENDS": json.dumps(sends or {}),
            "MAILONCE_PUBLIC_URL": "https://mail.example.com",
            **(environment or {}),
        },
        **named,
    )  # fmt: skip


def submit(
    server: Server, key: str | None = "k-1", *, to: Any = "ann@example.com", **changes: Any
) -> httpx.Response:
    headers = {} if key is None else {"Idempotency-Key": key}
    body = {"to": to, **MAIL, **changes}
    given = {name: value for name, value in body.items() if value is not None}
    return server.api("/v1/sends", method="POST", json=given, headers=headers)


def let_time_pass(server: Server, seconds: float) -> None:
    """Let time pass for the sends of a server that does not run: all of theirs is so much ago."""
    past = ", ".join(
        f"{name} = {name} - {int(seconds * 1000)}"
        for name in ("due_ms", "deadline_ms", "flight_ms", "lease_ms")
    )
    sql.query(server.database, f"UPDATE sends SET {past}")


def states(server: Server) -> dict[str, int]:
    counted: dict[str, int] = {}
    for send in server.get("/v1/sends", limit=1000)["data"]:
        counted[send["state"]] = counted.get(send["state"], 0) + 1
    return counted


def settle_by_webhooks(
    server: Server, fake: Fake, name: str, *, now_s: int, copies: int = 1, but: str = ""
) -> None:
    """Post the signed webhooks of all that a fake has accepted, but for one recipient."""
    messages = [one for one in fake.messages if one.mail.recipient != but]
    for post in fake.webhooks(now_s=now_s, copies=copies, messages=messages):
        answer = server.post(post.body, source=f"{name}{post.path}", headers=post.headers)
        assert answer.status_code == 200, answer.text
