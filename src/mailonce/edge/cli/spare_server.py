"""A spare server: a real `mailonce serve` on an empty database, gone when we are done."""

import asyncio
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from mailonce.errors import UnavailableError

# One that fails ends at once; one that takes so long has a busy machine.
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 20
POLL_S = 0.05
_GREETING = re.compile(r"listens at (http://\S+)")


class Spare(NamedTuple):
    """Its URL and an operator key."""

    url: str
    key: str


@asynccontextmanager
async def spare_server() -> AsyncIterator[Spare]:
    """Run a server on a port and a database of its own.

    Raises: UnavailableError where it does not start.
    """
    with tempfile.TemporaryDirectory(prefix="mailonce-") as folder:
        key = secrets.token_hex(20)
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith("MAILONCE")
        }
        log = Path(folder) / "log"
        with log.open("wb") as writing:
            # The usual port of the SMTP door is left to others.
            process = subprocess.Popen(  # noqa: ASYNC220 - starting is quick, and we wait below
                [
                    sys.executable,
                    "-m",
                    "mailonce",
                    "serve",
                    "--port",
                    "0",
                    "--role",
                    "door",
                    "--role",
                    "worker",
                ],
                cwd=folder,
                env={**kept, "MAILONCE_ADMIN_KEY": key},
                stdout=writing,
                stderr=writing,
            )
        try:
            yield Spare(await _url_of(process, log), key)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                await asyncio.to_thread(process.wait, STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


async def _url_of(process: "subprocess.Popen[bytes]", log: Path) -> str:
    for _ in range(int(START_TIMEOUT_S / POLL_S)):
        greeting = _GREETING.search(_log_text(log))
        if greeting is not None:
            return greeting.group(1)
        if process.poll() is not None:
            break
        await asyncio.sleep(POLL_S)
    else:
        raise UnavailableError(
            f"the demo's server did not start within {START_TIMEOUT_S} s; try again when this "
            "machine is less busy"
        )
    last = _log_text(log).strip().rpartition("\n")[2]
    raise UnavailableError(f"the demo's server did not start: {last or 'it said nothing'}")


def _log_text(log: Path) -> str:
    return log.read_text(errors="replace")
