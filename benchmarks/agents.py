"""Agents that wait for codes: how soon one has it, and what ten thousand expectations take.

`python -m benchmarks agents` runs this part alone, on SQLite. Thousands of expectations are open,
hundreds of requests wait for one each. Then mails with codes are sent over SMTP, one at a time, and
the time is taken from the 250 to the answer that says `ready`. Beside it maildev, whose users ask
for all mails twice a second until theirs is there. All of it is done in the 25 seconds that a
request waits at most.
"""

import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from benchmarks.inboxes import KEY, SETTINGS, _ask, _is_ready, _make_inboxes, _until_quiet
from benchmarks.processes import ROOT, Server
from benchmarks.smtp_peers import start_maildev
from tests.servers import free_port, wait_for

OPEN, WAITERS, MAILS = 10_000, 400, 200
QUICK_OPEN, QUICK_WAITERS, QUICK_MAILS = 1_000, 60, 50
OF_INBOX = 10
AT_ONCE = 16
MAILDEV_MAILS = 20
# As often as test suites ask.
POLL_S = 0.5
POLLS_MAX = 60
MEMORY_MB_MAX, READY_MS_MAX = 200.0, 50.0
IDLE_S = 3.0


def run(stack: contextlib.ExitStack, place: Path, *, quick: bool) -> bool:
    """Measure and print; say whether both promises held."""
    folder = place / "agents"
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
    sizes = (QUICK_OPEN, QUICK_WAITERS, QUICK_MAILS) if quick else (OPEN, WAITERS, MAILS)
    kept = asyncio.run(_measure(psutil.Process(process.pid), port, smtp_port, *sizes))
    _measure_maildev(stack, place)
    return kept


async def _measure(
    server: psutil.Process, port: int, smtp_port: int, many: int, waiters: int, mails: int
) -> bool:
    inboxes = await asyncio.to_thread(_make_inboxes, port, many // OF_INBOX + waiters)
    own, shared = inboxes[:waiters], inboxes[waiters:]
    await _until_quiet(port)
    before = server.memory_info().rss
    began = time.perf_counter()
    await _open_all(port, [one for one in shared for _ in range(OF_INBOX)])
    opened_s = time.perf_counter() - began
    ids = await _open_all(port, own)
    readers: dict[str, asyncio.StreamReader] = {}
    writers = []
    for inbox, id_ in zip(own, ids, strict=True):
        reader, writer = await _ask(port, f"GET /v1/expectations/{id_}?wait=25", b"")
        readers[inbox] = reader
        writers.append(writer)
    await _until_quiet(port)
    memory_mb = (server.memory_info().rss - before) / 1e6
    idle = await _idle_share(server)
    taken_ms = [await _ready_ms(smtp_port, one, readers[one]) for one in own[-mails:]]
    for writer in writers:
        writer.close()
    p50, p99 = statistics.median(taken_ms), statistics.quantiles(taken_ms, n=100)[98]
    opened = len(shared) * OF_INBOX
    print(f"\n{opened} expectations opened, {opened / opened_s:.0f} a second, at {AT_ONCE} clients")
    print(
        f"they and {waiters} agents who wait add {memory_mb:.0f} MB, and idle {idle:.1%} of a core"
    )
    print(f"250 → the waiting agent hears `ready`: p50 {p50:.1f} ms, p99 {p99:.1f} ms")
    print(f"promised: at most {MEMORY_MB_MAX:.0f} MB and {READY_MS_MAX:.0f} ms at p99")
    return memory_mb <= MEMORY_MB_MAX and p99 <= READY_MS_MAX


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
    length = next(
        int(line.partition(b":")[2])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length")
    )
    answer: dict[str, Any] = json.loads(await reader.readexactly(length))
    assert b" 20" in head.partition(b"\r\n")[0], answer
    return answer


async def _idle_share(server: psutil.Process) -> float:
    before = sum(server.cpu_times()[:2])
    await asyncio.sleep(IDLE_S)
    return float(sum(server.cpu_times()[:2]) - before) / IDLE_S


async def _ready_ms(smtp_port: int, inbox: str, reader: asyncio.StreamReader) -> float:
    sent = await _send(smtp_port, inbox)
    answer = await asyncio.wait_for(_answer(reader), 30)
    taken_ms = (time.perf_counter() - sent) * 1000
    assert answer["state"] == "ready", answer
    return taken_ms


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
