"""Peers of the SMTP door: aiosmtpd that stores nothing, and maildev from npm."""

import asyncio
import logging
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import uvloop
from aiosmtpd.smtp import SMTP, Envelope, Session

from benchmarks.processes import Server, start_python
from tests.servers import free_port, wait_for

MAILDEV = "maildev@3.0.0"
# Of what maildev needs, the versions of that day fit together.
MAILDEV_DAY = "2026-10-01"
INSTALL_S = 180


class Sink:
    """Says yes to everything and keeps nothing."""

    async def handle_RCPT(  # noqa: N802 - the name is aiosmtpd's
        self, _: SMTP, __: Session, envelope: Envelope, address: str, ___: list[str]
    ) -> str:
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _: SMTP, __: Session, ___: Envelope) -> str:  # noqa: N802
        return "250 OK"


async def serve(port: int) -> None:
    """Run aiosmtpd on the event loop that mailonce runs on."""
    loop = asyncio.get_running_loop()
    sink = Sink()
    server = await loop.create_server(
        lambda: SMTP(sink, hostname="peer.test", enable_SMTPUTF8=True, loop=loop),
        "127.0.0.1",
        port,
        backlog=500,
    )
    await server.serve_forever()


def start_aiosmtpd() -> Server:
    port = free_port()
    process = start_python(["-m", "benchmarks.smtp_peers", str(port)])
    return _listening(Server("aiosmtpd, stores nothing", process, port, ""))


def start_maildev(place: Path, *, web_port: int | None = None) -> Server | str:
    """Install and start maildev; where that cannot be done, say why."""
    folder = install_maildev(place)
    return folder if isinstance(folder, str) else run_maildev(folder, web_port=web_port)


def install_maildev(place: Path, *, limit_s: float = INSTALL_S) -> Path | str:
    """Install maildev into a folder of its own; where that cannot be done in time, say why."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        return "npm or node is not installed"
    folder = place / "maildev"
    folder.mkdir()
    try:
        subprocess.run(
            [npm, "install", "--no-audit", "--no-fund", "--before", MAILDEV_DAY, MAILDEV],
            cwd=folder,
            check=True,
            capture_output=True,
            timeout=limit_s,
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        return f"npm could not install {MAILDEV} ({type(error).__name__})"
    return folder


def run_maildev(folder: Path, *, web_port: int | None = None) -> Server:
    """Start maildev from the folder that it was installed into."""
    port = free_port()
    ports, addresses = (
        f"-s {port} -w {web_port or free_port()}",
        "--ip 127.0.0.1 --web-ip 127.0.0.1",
    )
    process = subprocess.Popen(
        ["node", f"{folder}/node_modules/.bin/maildev", *f"{ports} {addresses}".split()],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "TMPDIR": str(folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return _listening(Server("maildev", process, port, ""))


def _listening(server: Server) -> Server:
    def answers() -> bool:
        if server.process.poll() is not None:
            raise RuntimeError(f"{server.name} ended; set BENCH_LOG=1 to see why")
        try:
            with socket.create_connection(("127.0.0.1", server.port), timeout=2) as probe:
                return probe.recv(4) == b"220 "
        except OSError:
            return False

    try:
        wait_for(answers, seconds=60, what=f"{server.name} to start")
    except BaseException:
        server.process.kill()
        raise
    return server


if __name__ == "__main__":
    logging.getLogger("mail.log").setLevel(logging.ERROR)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(int(sys.argv[1])))
