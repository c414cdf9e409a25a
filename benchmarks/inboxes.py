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
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import psutil

from benchmarks.processes import ROOT
from tests.servers import free_port, wait_for

KEY = "benchmark-admin-key"
FLEETS, FLEET = 10, 1_000
SINGLES, MAILS = 2_000, 300
QUICK_FLEETS, QUICK_SINGLES, QUICK_MAILS = 2, 60, 50
WAITERS = 10_000
WAITERS_MB_MAX, ANSWER_MS_MAX = 200.0, 50.0
OPEN_AT_ONCE = 50
QUIET_S = 0.02

SETTINGS = """
[door]
connections_max = 20000
address_connections_max = 20000
[inboxes]
inboxes_max = 100000
"""


def run(stack: contextlib.ExitStack, place: Path, *, quick: bool) -> bool:
    """Measure and print; say whether both promises held."""
    folder = place / "inboxes"
    folder.mkdir()
    (folder / "mailonce.toml").write_text(SETTINGS)
    port, smtp_port = free_port(), free_port()
    command = [sys.executable, "-m", "mailonce", "serve", "--port", str(port)]
    process = subprocess.Popen(
        [*command, "--smtp-port", str(smtp_port)],
        cwd=folder,
        env={"MAILONCE_ADMIN_KEY": KEY, "PYTHONPATH": f"{ROOT / 'src'}", "PATH": ""},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    stack.callback(process.wait)
    stack.callback(process.terminate)
    wait_for(lambda: _is_ready(port), what="the server", seconds=180)
    sizes = (QUICK_FLEETS, QUICK_SINGLES, QUICK_MAILS) if quick else (FLEETS, SINGLES, MAILS)
    return asyncio.run(_measure(process.pid, port, smtp_port, *sizes))


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


async def _measure(
    pid: int, port: int, smtp_port: int, fleets: int, singles: int, mails: int
) -> bool:
    inboxes = await asyncio.to_thread(_make_inboxes, port, fleets * FLEET + singles)
    own, shared = inboxes[:singles], inboxes[singles:]
    await _until_quiet(port)
    memory = psutil.Process(pid).memory_info
    before = memory().rss
    writers = []
    for start in range(0, len(shared), FLEET):
        _, writer = await _wait_for_all(port, shared[start : start + FLEET])
        writers.append(writer)
    await _until_quiet(port)
    fleets_mb = (memory().rss - before) / 1e6
    before = memory().rss
    readers: dict[str, asyncio.StreamReader] = {}
    for start in range(0, singles, OPEN_AT_ONCE):
        some = own[start : start + OPEN_AT_ONCE]
        opened = await asyncio.gather(*(_wait_for_one(port, one) for one in some))
        for one, (reader, writer) in zip(some, opened, strict=True):
            readers[one] = reader
            writers.append(writer)
    await _until_quiet(port)
    singles_mb = (memory().rss - before) / 1e6
    taken_ms = [await _answer_ms(smtp_port, one, readers[one]) for one in own[-mails:]]
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


async def _until_quiet(port: int) -> None:
    """Wait until the server has dealt with what it was asked."""
    quick = 0
    while quick < 5:
        began = time.perf_counter()
        await asyncio.to_thread(_is_ready, port)
        quick = quick + 1 if time.perf_counter() - began < QUIET_S else 0
        await asyncio.sleep(QUIET_S)


def _make_inboxes(port: int, many: int) -> list[str]:
    addresses: list[str] = []
    while len(addresses) < many:
        wanted = min(500, many - len(addresses))
        body = json.dumps({"inboxes": [{}] * wanted}).encode()
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/inboxes", body, headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            addresses += [one["address"] for one in json.load(answer)["data"]]
    return addresses


async def _wait_for_one(port: int, inbox: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await _ask(port, f"GET /v1/inboxes/{inbox}/messages?after=0&wait=25", b"")


async def _wait_for_all(
    port: int, inboxes: list[str]
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    cursors = [{"inbox": one, "after": 0} for one in inboxes]
    body = json.dumps({"inboxes": cursors, "wait": 25}).encode()
    return await _ask(port, "POST /v1/inboxes/messages", body)


async def _ask(
    port: int, what: str, body: bytes
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=4096)
    length = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
    head = f"{what} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n{length}\r\n"
    writer.write(head.encode() + body)
    return reader, writer


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
