"""Readers that wait for mail: what ten thousand of them take, and how soon one is answered.

`python -m benchmarks inboxes` runs this part alone, on SQLite. Ten requests wait for a thousand
inboxes each, and some thousands for one each; what these take is shown for ten thousand of them,
since no more can be opened within the time for which the first of them waits. Then mails are sent
over SMTP, one at a time, to inboxes that a request of its own waits for, and the time from the 250
to the answer is taken, while all others go on waiting. A request waits for 25 seconds at most, so
all of it is done in that time.
"""

import asyncio
import contextlib
import json
import statistics
import time
from pathlib import Path

from benchmarks.mail_server import MailServer, ask, make_inboxes, start_mail_server, until_quiet

FLEETS, FLEET = 10, 1_000
SINGLES, MAILS = 2_000, 300
QUICK_FLEETS, QUICK_SINGLES, QUICK_MAILS = 2, 60, 50
WAITERS = 10_000
WAITERS_MB_MAX, ANSWER_MS_MAX = 200.0, 50.0
OPEN_AT_ONCE = 50


def run(stack: contextlib.ExitStack, place: Path, *, quick: bool) -> bool:
    """Measure and print; say whether both promises held."""
    server = start_mail_server(stack, place / "inboxes")
    sizes = (QUICK_FLEETS, QUICK_SINGLES, QUICK_MAILS) if quick else (FLEETS, SINGLES, MAILS)
    return asyncio.run(_measure(server, *sizes))


async def _measure(server: MailServer, fleets: int, singles: int, mails: int) -> bool:
    port = server.port
    inboxes = await asyncio.to_thread(make_inboxes, port, fleets * FLEET + singles)
    own, shared = inboxes[:singles], inboxes[singles:]
    await until_quiet(port)
    memory = server.process.memory_info
    before = memory().rss
    writers = []
    for start in range(0, len(shared), FLEET):
        _, writer = await _wait_for_all(port, shared[start : start + FLEET])
        writers.append(writer)
    await until_quiet(port)
    fleets_mb = (memory().rss - before) / 1e6
    before = memory().rss
    readers: dict[str, asyncio.StreamReader] = {}
    for start in range(0, singles, OPEN_AT_ONCE):
        some = own[start : start + OPEN_AT_ONCE]
        opened = await asyncio.gather(*(_wait_for_one(port, one) for one in some))
        for one, (reader, writer) in zip(some, opened, strict=True):
            readers[one] = reader
            writers.append(writer)
    await until_quiet(port)
    singles_mb = (memory().rss - before) / 1e6
    taken_ms = [await _answer_ms(server.smtp_port, one, readers[one]) for one in own[-mails:]]
    for writer in writers:
        writer.close()
    p50, p99 = statistics.median(taken_ms), statistics.quantiles(taken_ms, n=100)[98]
    print(f"\n{len(shared)} inboxes that {fleets} requests wait for add {fleets_mb:.0f} MB")
    all_singles_mb = singles_mb * WAITERS / singles
    print(
        f"{singles} requests that wait for one inbox each add {singles_mb:.0f} MB: "
        f"{all_singles_mb:.0f} MB for {WAITERS}"
    )
    print(f"250 → the waiting reader has its answer: p50 {p50:.1f} ms, p99 {p99:.1f} ms")
    print(f"promised: at most {WAITERS_MB_MAX:.0f} MB and {ANSWER_MS_MAX:.0f} ms at p99")
    return max(fleets_mb, all_singles_mb) <= WAITERS_MB_MAX and p99 <= ANSWER_MS_MAX


async def _wait_for_one(port: int, inbox: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await ask(port, f"GET /v1/inboxes/{inbox}/messages?after=0&wait=25", b"")


async def _wait_for_all(
    port: int, inboxes: list[str]
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    cursors = [{"inbox": one, "after": 0} for one in inboxes]
    body = json.dumps({"inboxes": cursors, "wait": 25}).encode()
    return await ask(port, "POST /v1/inboxes/messages", body)


async def _answer_ms(smtp_port: int, inbox: str, reader: asyncio.StreamReader) -> float:
    replies, smtp = await asyncio.open_connection("127.0.0.1", smtp_port)
    await replies.readline()
    for command in ("HELO a.example", "MAIL FROM:<a@a.example>", f"RCPT TO:<{inbox}>", "DATA"):
        smtp.write(command.encode() + b"\r\n")
        await replies.readline()
    smtp.write(f"Subject: for {inbox}\r\n\r\nhello\r\n.\r\n".encode())
    answer = await replies.readline()
    accepted = time.perf_counter()
    assert answer.startswith(b"250"), answer
    status = await asyncio.wait_for(reader.readline(), 30)
    taken_ms = (time.perf_counter() - accepted) * 1000
    assert b"200" in status, status
    smtp.close()
    return taken_ms
