"""Agents that wait for codes: how soon one has it, and what ten thousand who wait take.

`python -m benchmarks agents` runs this part alone, on PostgreSQL. Ten thousand expectations are
open, and an agent waits for each of them over a connection of its own, from several addresses. A
request waits for 25 seconds at most; who is told `pending` asks again at once, as clients do, so
all of them wait all the time. Printed are the memory that they add, and the transactions of the
database while nothing happens, beside those of the same server without agents: a request reads
when it begins and when its time is over, and nobody is looked up in between. Then mails with codes
are sent over SMTP, one at a time, and the time is taken from the 250 to the answer that says
`ready`. Beside it maildev, whose users ask for all mails twice a second until theirs is there.
"""

import asyncio
import contextlib
import json
import statistics
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg

from benchmarks.mail_server import (
    KEY,
    MailServer,
    make_inboxes,
    report,
    start_mail_server,
    written,
)
from benchmarks.processes import Postgres, Server
from benchmarks.smtp_peers import start_maildev
from tests.servers import free_port, wait_for

OPEN, MAILS = 10_000, 200
QUICK_OPEN, QUICK_MAILS = 1_000, 50
OF_INBOX = 10
AT_ONCE = 32
CONNECT_AT_ONCE = 51
# From which agents connect: one address has only so many ports.
ADDRESSES = tuple(f"127.0.0.{number}" for number in range(2, 10))
# They were not all started at once, so that they do not all ask again at once.
WAITS_S = tuple(15 + number / 5 for number in range(51))
MAILDEV_MAILS = 20
# As often as test suites ask.
POLL_S = 0.5
POLLS_MAX = 60
MEMORY_MB_MAX, READY_MS_MAX = 200.0, 50.0
MEASURE_S = 600.0
# How long nothing happens.
IDLE_S, QUICK_IDLE_S = 30.0, 12.0
# A process of PostgreSQL that has nothing to do hands in its counts after ten seconds.
REPORT_S = 11.0
# Transactions that a request takes: to begin, to find its expectation, and as much at its end.
OF_REQUEST = 4
# What a window's edges may cut off.
STRAY = 50


@dataclass(slots=True)
class Crowd:
    """All agents, and how often they asked."""

    asked: int = 0
    agents: "list[WaitingAgent]" = field(default_factory=list)


class WaitingAgent(asyncio.Protocol):
    """Waits for one expectation over one connection, and asks again while it is pending."""

    def __init__(self, crowd: Crowd, expectation: str, wait_s: float) -> None:
        self._crowd = crowd
        self._request = written(f"GET /v1/expectations/{expectation}?wait={wait_s:g}")
        self._data = b""
        self.wire: asyncio.Transport | None = None
        self.ready: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport), "TCP has one"
        self.wire = transport
        self._ask()

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        self._data += data
        head, behind, body = self._data.partition(b"\r\n\r\n")
        if not behind or len(body) < _length_in(head):
            return
        self._data = b""
        assert head.startswith(b"HTTP/1.1 200"), self._data[:200]
        state = json.loads(body)["state"]
        if state == "pending":
            self._ask()
        elif not self.ready.done():
            assert state == "ready", state
            self.ready.set_result(now)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ready.done():
            self.ready.set_exception(exc or RuntimeError("an agent was disconnected"))
            self.ready.exception()

    def _ask(self) -> None:
        assert self.wire is not None, "it asks once it is connected"
        self._crowd.asked += 1
        self.wire.write(self._request)


def run(stack: contextlib.ExitStack, place: Path, *, quick: bool) -> bool:
    """Measure and print; say whether the promises held."""
    postgres = Postgres.start()
    stack.callback(postgres.stop)
    asyncio.run(_execute(postgres.url("postgres"), "CREATE DATABASE agents"))
    database = postgres.url("agents")
    server = start_mail_server(stack, place / "agents", database)
    sizes = (QUICK_OPEN, QUICK_MAILS, QUICK_IDLE_S) if quick else (OPEN, MAILS, IDLE_S)
    try:
        kept = asyncio.run(_measure(server, database, *sizes))
    except TimeoutError:
        print(f"the agents were not measured within {MEASURE_S:.0f} s; is this machine busy?")
        return False
    _measure_maildev(stack, place)
    return kept


async def _measure(server: MailServer, database: str, many: int, mails: int, idle_s: float) -> bool:
    async with asyncio.timeout(MEASURE_S):
        return await _measure_all(server, database, many, mails, idle_s)


async def _measure_all(
    server: MailServer, database: str, many: int, mails: int, idle_s: float
) -> bool:
    shared_many = (many - mails) // OF_INBOX
    inboxes = await asyncio.to_thread(make_inboxes, server.port, mails + shared_many)
    own, shared = inboxes[:mails], inboxes[mails:]
    report(f"counting transactions without agents for {REPORT_S + idle_s:.0f} s")
    await asyncio.sleep(REPORT_S)
    alone = await _transactions(database, idle_s)
    before = server.process.memory_info().rss
    report(f"opening {many} expectations")
    began = time.perf_counter()
    ids = await _open_all(server.port, [*own, *(one for _ in range(OF_INBOX) for one in shared)])
    opened_s = time.perf_counter() - began
    crowd = Crowd()
    report(f"{len(ids)} opened; an agent connects for each")
    await _connect_all(server.port, crowd, ids)
    # Reads are served in turn: once this one is answered, all who asked before it wait.
    await asyncio.to_thread(_show, server.port, ids[-1])
    report(f"all of them wait; counting transactions for {REPORT_S + idle_s:.0f} s")
    await asyncio.sleep(REPORT_S)
    cpu_s, asked = sum(server.process.cpu_times()[:2]), crowd.asked
    idle = await _transactions(database, idle_s)
    asked = crowd.asked - asked
    share = (sum(server.process.cpu_times()[:2]) - cpu_s) / idle_s
    memory_mb = (server.process.memory_info().rss - before) / 1e6
    waiting = sum(not one.ready.done() for one in crowd.agents)
    report(f"sending {len(own)} mails, one at a time")
    taken_ms = []
    for inbox, agent in zip(own, crowd.agents, strict=False):
        sent = await _send(server.smtp_port, inbox)
        taken_ms.append((await asyncio.wait_for(agent.ready, 60) - sent) * 1000)
    for agent in crowd.agents:
        if agent.wire is not None:
            agent.wire.abort()
    p50, p99 = statistics.median(taken_ms), statistics.quantiles(taken_ms, n=100)[98]
    print(f"\n{len(ids)} expectations opened, {len(ids) / opened_s:.0f} a second")
    print(f"they and {waiting} agents who wait at once add {memory_mb:.0f} MB")
    print(
        f"while nothing happens, {asked / idle_s:.0f} requests a second begin anew: {share:.0%} of "
        f"a core, {idle / idle_s:.1f} transactions a second; without agents {alone / idle_s:.1f}"
    )
    print(f"250 → the waiting agent hears `ready`: p50 {p50:.1f} ms, p99 {p99:.1f} ms")
    print(
        f"promised: at most {MEMORY_MB_MAX:.0f} MB, {READY_MS_MAX:.0f} ms at p99, and no "
        "transaction but those of requests that begin or end"
    )
    has_no_polling = idle - alone <= OF_REQUEST * asked + STRAY
    is_small = memory_mb <= MEMORY_MB_MAX and waiting == len(ids)
    return is_small and has_no_polling and p99 <= READY_MS_MAX


async def _connect_all(port: int, crowd: Crowd, ids: Sequence[str]) -> None:
    """Have an agent wait for each expectation."""
    loop = asyncio.get_running_loop()
    for start in range(0, len(ids), CONNECT_AT_ONCE):
        opening = [
            loop.create_connection(
                partial(WaitingAgent, crowd, id_, WAITS_S[number % len(WAITS_S)]),
                "127.0.0.1",
                port,
                local_addr=(ADDRESSES[number % len(ADDRESSES)], 0),
            )
            for number, id_ in enumerate(ids[start : start + CONNECT_AT_ONCE])
        ]
        crowd.agents += [agent for _, agent in await asyncio.gather(*opening)]


def _show(port: int, expectation: str) -> None:
    headers = {"Authorization": f"Bearer {KEY}"}
    url = f"http://127.0.0.1:{port}/v1/expectations/{expectation}"
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=300) as shown:
        assert json.load(shown)["state"] == "pending", "nothing was sent yet"


async def _transactions(database: str, seconds: float) -> int:
    """Count the transactions of a database while nothing happens."""
    query = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'agents'"
    connection = await asyncpg.connect(database.replace("/agents", "/postgres"))
    before = await connection.fetchval(query)
    await asyncio.sleep(seconds)
    after = await connection.fetchval(query)
    await connection.close()
    return int(after - before)


async def _execute(database: str, statement: str) -> None:
    connection = await asyncpg.connect(database)
    await connection.execute(statement)
    await connection.close()


async def _open_all(port: int, inboxes: Sequence[str]) -> list[str]:
    """Open an expectation of each, some at a time, each over a connection that is kept."""
    ids: list[str] = [""] * len(inboxes)

    async def work(first: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in range(first, len(inboxes), AT_ONCE):
            body = b'{"kind":"code","deadline_s":3600}'
            writer.write(
                f"POST /v1/inboxes/{inboxes[number]}/expectations HTTP/1.1\r\nHost: localhost\r\n"
                f"Authorization: Bearer {KEY}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n".encode()
                + body
            )
            ids[number] = str((await _answer(reader))["id"])
        writer.close()

    await asyncio.gather(*(work(first) for first in range(AT_ONCE)))
    return ids


async def _answer(reader: asyncio.StreamReader) -> dict[str, Any]:
    head = await reader.readuntil(b"\r\n\r\n")
    answer: dict[str, Any] = json.loads(await reader.readexactly(_length_in(head)))
    assert b" 20" in head.partition(b"\r\n")[0], answer
    return answer


def _length_in(head: bytes) -> int:
    return next(
        int(line.partition(b":")[2])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length")
    )


async def _send(smtp_port: int, recipient: str) -> float:
    """Send a mail with a code; give when its 250 came."""
    replies, smtp = await asyncio.open_connection("127.0.0.1", smtp_port)
    await replies.readline()
    for command in ("HELO a.example", "MAIL FROM:<a@a.example>", f"RCPT TO:<{recipient}>", "DATA"):
        smtp.write(command.encode() + b"\r\n")
        await replies.readline()
    head = f"From: a@a.example\r\nTo: {recipient}\r\nSubject: for {recipient}\r\n"
    smtp.write(f"{head}\r\nYour verification code is 492817.\r\n.\r\n".encode())
    answer = await replies.readline()
    accepted = time.perf_counter()
    assert answer.startswith(b"250"), answer
    smtp.close()
    return accepted


def _measure_maildev(stack: contextlib.ExitStack, place: Path) -> None:
    web_port = free_port()
    peer = start_maildev(place, web_port=web_port)
    if not isinstance(peer, Server):
        print(f"maildev is left out: {peer}")
        return
    stack.callback(peer.stop)
    try:
        wait_for(lambda: _is_serving(web_port), seconds=60, what="maildev's API")
    except TimeoutError as error:
        print(f"maildev is left out: {error}")
        return
    taken_ms = asyncio.run(_poll_maildev(peer.port, web_port))
    p50, longest = statistics.median(taken_ms), max(taken_ms)
    print(f"maildev, asked each {POLL_S:g} s: p50 {p50:.0f} ms, longest {longest:.0f} ms")


async def _poll_maildev(smtp_port: int, web_port: int) -> list[float]:
    taken_ms = []
    for number in range(MAILDEV_MAILS):
        recipient = f"{number}@maildev.example"
        polling = asyncio.create_task(asyncio.to_thread(_poll, web_port, recipient))
        # At any moment between two questions.
        await asyncio.sleep(POLL_S * number / MAILDEV_MAILS)
        accepted = await _send(smtp_port, recipient)
        taken_ms.append((await polling - accepted) * 1000)
    return taken_ms


def _poll(web_port: int, recipient: str) -> float:
    for _ in range(POLLS_MAX):
        if any(recipient in str(mail.get("to")) for mail in _mails(web_port)):
            return time.perf_counter()
        time.sleep(POLL_S)
    raise RuntimeError("maildev does not show the mail")


def _mails(web_port: int) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"http://127.0.0.1:{web_port}/api/email", timeout=10) as answer:
        shown = json.load(answer)
    mails: list[dict[str, Any]] = shown if isinstance(shown, list) else shown["emails"]
    return mails


def _is_serving(web_port: int) -> bool:
    try:
        _mails(web_port)
    except (OSError, ValueError):
        return False
    return True
