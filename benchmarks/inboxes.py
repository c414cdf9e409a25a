"""Readers that wait for mail: what ten thousand of them take, and how soon one is answered.

`python -m benchmarks inboxes` runs this part alone, on SQLite. Ten thousand connections wait for an
inbox each. A request waits for 25 seconds at most, and however long it takes to open all of them:
who was answered that nothing came asks again, as a client does, so that all of them wait at last.
Then mails are sent over SMTP, one at a time, and the time from the 250 to the answer of the
connection that waits for that inbox is taken, while all others go on waiting. Another server is
asked by ten requests that wait for a thousand inboxes each.
"""

import asyncio
import contextlib
import json
import re
import statistics
import time
from pathlib import Path

from benchmarks.mail_server import (
    MailServer,
    TooBusyError,
    ask,
    make_inboxes,
    report,
    start_mail_server,
    until_quiet,
    written,
)

WAITERS, FLEET, MAILS = 10_000, 1_000, 300
QUICK_WAITERS, QUICK_MAILS = 1_000, 50
WAITERS_MB_MAX, ANSWER_MS_MAX = 200.0, 50.0
OPEN_AT_ONCE = 50
REPORT_EVERY = 1_000
MEASURE_S = 240.0


def run(stack: contextlib.ExitStack, place: Path, *, quick: bool) -> bool:
    """Measure and print; say whether both promises held."""
    waiters, mails = (QUICK_WAITERS, QUICK_MAILS) if quick else (WAITERS, MAILS)
    try:
        server = start_mail_server(stack, place / "inboxes")
        singles_mb, taken_ms = asyncio.run(_measure_singles(server, waiters, mails))
        server.process.terminate()
        server = start_mail_server(stack, place / "fleets")
        fleets_mb = asyncio.run(_measure_fleets(server, waiters))
    except TooBusyError as error:
        print(error)
        return False
    except TimeoutError:
        print(f"{waiters} readers did not wait within {MEASURE_S:.0f} s; is this machine busy?")
        return False
    p50, p99 = statistics.median(taken_ms), statistics.quantiles(taken_ms, n=100)[98]
    print(f"\n{waiters} connections that wait for one inbox each add {singles_mb:.0f} MB")
    print(f"250 → the waiting reader has its answer: p50 {p50:.1f} ms, p99 {p99:.1f} ms")
    fleets = -(-waiters // FLEET)
    print(f"{fleets} requests that wait for {FLEET} inboxes each add {fleets_mb:.0f} MB")
    print(f"promised: at most {WAITERS_MB_MAX:.0f} MB and {ANSWER_MS_MAX:.0f} ms at p99")
    return max(singles_mb, fleets_mb) <= WAITERS_MB_MAX and p99 <= ANSWER_MS_MAX


class Waiter(asyncio.Protocol):
    """A connection that waits for the mail of one inbox, and asks again where none came."""

    def __init__(self, inbox: str) -> None:
        self._request = written(f"GET /v1/inboxes/{inbox}/messages?after=0&wait=25")
        self._answer = b""
        # Resolved with the time of the answer that has a message, or with what went wrong.
        self.answered: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        came_s = time.perf_counter()
        self._answer += data
        head, end, body = self._answer.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: *(\d+)", head)
        if not end or length is None or len(body) < int(length[1]):
            return
        self._answer = b""
        if not head.startswith(b"HTTP/1.1 200"):
            self._fail(RuntimeError(f"the server answered {head[:80]!r}"))
        elif json.loads(body)["data"]:
            self.answered.set_result(came_s)
        else:
            self.transport.write(self._request)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(exc or ConnectionError("the server closed the connection of a waiting reader"))

    def _fail(self, error: Exception) -> None:
        if not self.answered.done():
            self.answered.set_exception(error)
            # Nobody may ask for it.
            self.answered.exception()


async def _measure_singles(
    server: MailServer, waiters: int, mails: int
) -> tuple[float, list[float]]:
    """Open a connection for each inbox; give what all take, and how soon some are answered."""
    async with asyncio.timeout(MEASURE_S):
        inboxes = await asyncio.to_thread(make_inboxes, server.port, waiters)
        await until_quiet(server.port)
        before = server.process.memory_info().rss
        waiting: dict[str, Waiter] = {}
        for start in range(0, waiters, OPEN_AT_ONCE):
            some = inboxes[start : start + OPEN_AT_ONCE]
            opened = await asyncio.gather(*(_wait_for_one(server.port, one) for one in some))
            waiting.update(zip(some, opened, strict=True))
            if len(waiting) % REPORT_EVERY == 0:
                report(f"{len(waiting)} of {waiters} connections are open")
        await until_quiet(server.port)
        lost = [one for one in waiting.values() if one.answered.done()]
        assert not lost, f"{len(lost)} of the connections wait no longer"
        singles_mb = (server.process.memory_info().rss - before) / 1e6
        step = waiters // mails
        report(f"all of them wait; sending {mails} mails, one at a time")
        taken_ms = [
            await _answer_ms(server.smtp_port, one, waiting[one].answered)
            for one in inboxes[: mails * step : step]
        ]
    for one in waiting.values():
        one.transport.abort()
    return singles_mb, taken_ms


async def _measure_fleets(server: MailServer, waiters: int) -> float:
    """Let requests wait for many inboxes each; give what they take."""
    async with asyncio.timeout(MEASURE_S):
        inboxes = await asyncio.to_thread(make_inboxes, server.port, waiters)
        await until_quiet(server.port)
        before = server.process.memory_info().rss
        report(f"opening requests that wait for {FLEET} inboxes each")
        writers = [
            await _wait_for_all(server.port, inboxes[start : start + FLEET])
            for start in range(0, waiters, FLEET)
        ]
        await until_quiet(server.port)
        fleets_mb = float(server.process.memory_info().rss - before) / 1e6
    for writer in writers:
        writer.close()
    return fleets_mb


async def _wait_for_one(port: int, inbox: str) -> Waiter:
    loop = asyncio.get_running_loop()
    _, waiter = await loop.create_connection(lambda: Waiter(inbox), "127.0.0.1", port)
    return waiter


async def _wait_for_all(port: int, inboxes: list[str]) -> asyncio.StreamWriter:
    cursors = [{"inbox": one, "after": 0} for one in inboxes]
    body = json.dumps({"inboxes": cursors, "wait": 25}).encode()
    return (await ask(port, "POST /v1/inboxes/messages", body))[1]


async def _answer_ms(smtp_port: int, inbox: str, answered: "asyncio.Future[float]") -> float:
    replies, smtp = await asyncio.open_connection("127.0.0.1", smtp_port)
    await replies.readline()
    for command in ("HELO a.example", "MAIL FROM:<a@a.example>", f"RCPT TO:<{inbox}>", "DATA"):
        smtp.write(command.encode() + b"\r\n")
        await replies.readline()
    smtp.write(f"Subject: for {inbox}\r\n\r\nhello\r\n.\r\n".encode())
    answer = await replies.readline()
    accepted_s = time.perf_counter()
    assert answer.startswith(b"250"), answer
    smtp.close()
    came_s = await answered
    return max(0.0, came_s - accepted_s) * 1000
