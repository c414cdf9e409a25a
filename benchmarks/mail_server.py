"""A server that takes mail, and requests to it that cost whoever asks next to nothing."""

import asyncio
import contextlib
import json
import resource
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.processes import ROOT, START_S
from tests.servers import free_port, wait_for

KEY = "benchmark-admin-key"
QUIET_S = 0.02
QUIET_ANSWERS = 5
QUIET_S_MAX = 60.0
SETTINGS = """
[door]
connections_max = 20000
address_connections_max = 20000
[inboxes]
inboxes_max = 100000
"""


class TooBusyError(Exception):
    """The server, or this machine, is too busy to be measured."""


@dataclass(frozen=True, slots=True)
class MailServer:
    """`mailonce serve` with both of its doors."""

    process: psutil.Process
    port: int
    smtp_port: int


def start_mail_server(stack: contextlib.ExitStack, folder: Path, database: str = "") -> MailServer:
    """Start a server in a folder of its own; no database means SQLite in it.

    It may have as many files open as the machine allows, and so may whoever starts it.
    """
    _, files_max = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files_max, files_max))
    folder.mkdir()
    (folder / "mailonce.toml").write_text(SETTINGS)
    port, smtp_port = free_port(), free_port()
    command = [sys.executable, "-m", "mailonce", "serve", "--port", str(port)]
    variables = {"MAILONCE_ADMIN_KEY": KEY, "PYTHONPATH": f"{ROOT / 'src'}", "PATH": ""}
    process = subprocess.Popen(
        [*command, "--smtp-port", str(smtp_port)],
        cwd=folder,
        env=variables | ({"MAILONCE_DATABASE": database} if database else {}),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    stack.callback(process.wait)
    stack.callback(process.terminate)
    wait_for(lambda: is_ready(port), what="the server", seconds=START_S)
    return MailServer(psutil.Process(process.pid), port, smtp_port)


def is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def make_inboxes(port: int, many: int) -> list[str]:
    report(f"making {many} inboxes")
    addresses: list[str] = []
    while len(addresses) < many:
        wanted = min(500, many - len(addresses))
        body = json.dumps({"inboxes": [{}] * wanted}).encode()
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/inboxes", body, headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            addresses += [one["address"] for one in json.load(answer)["data"]]
    return addresses


async def until_quiet(port: int) -> None:
    """Wait until the server has dealt with what it was asked.

    Raises: TooBusyError where it answers slowly for too long.
    """
    quick, ends_s = 0, time.perf_counter() + QUIET_S_MAX
    while quick < QUIET_ANSWERS:
        began = time.perf_counter()
        await asyncio.to_thread(is_ready, port)
        quick = quick + 1 if time.perf_counter() - began < QUIET_S else 0
        if time.perf_counter() > ends_s:
            raise TooBusyError(
                f"the server did not answer {QUIET_ANSWERS} times in a row within "
                f"{QUIET_S * 1000:.0f} ms for {QUIET_S_MAX:.0f} s; is this machine busy?"
            )
        await asyncio.sleep(QUIET_S)


def report(progress: str) -> None:
    """Say how far a benchmark is, to whoever watches it."""
    print(f"{time.strftime('%H:%M:%S')} {progress}", file=sys.stderr, flush=True)


async def ask(
    port: int, what: str, body: bytes, *, local: str = "127.0.0.1"
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, limit=4096, local_addr=(local, 0)
    )
    writer.write(written(what, body))
    return reader, writer


def written(what: str, body: bytes = b"") -> bytes:
    """Write a request."""
    length = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
    head = f"{what} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n{length}\r\n"
    return head.encode() + body
