"""Handlers for the tests: each event writes one note; some crash, fail or are hopeless at first.

The message id says where: `exit-entry-1` ends the process as the handler begins, once.
"""

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

from sqlalchemy import event as hooks
from sqlalchemy import text

from mailonce import Handlers, Permanent

handlers = Handlers()
WHO = os.environ.get("HANDLING_WHO", "one")


@handlers.on("delivered", name="notes", limit_s=2, waits_s=(0.1,) * 9, concurrency=1)
def note(event: dict[str, Any], tx: Any) -> None:
    message = event["message_id"]
    first_time = _first_time(message)
    if message.startswith("exit-entry") and first_time:
        os._exit(9)
    tx.execute(text("INSERT INTO notes VALUES (:message, :who)"), {"message": message, "who": WHO})
    if message.startswith("kill-inside") and first_time:
        os.kill(os.getpid(), signal.SIGKILL)
    if message.startswith("exit-commit") and first_time:
        # Before the database hears of the commit.
        hooks.listen(tx.engine, "commit", lambda _: os._exit(9))
    if message.startswith("exit-after") and first_time:
        # When the commit stands, and nobody has been told.
        threading.Timer(0.1, os._exit, (9,)).start()
    if message.startswith("pause") and first_time:
        (_folder() / "paused").touch()
        time.sleep(0.7)
    if message.startswith("flaky") and first_time:
        raise RuntimeError("not yet")
    if message.startswith("hopeless"):
        raise Permanent("never")


@handlers.on("opened", name="tell", waits_s=(0.1,))
async def tell(event: dict[str, Any]) -> None:
    with (_folder() / "told").open("a") as file:
        file.write(event["key"] + "\n")


def _first_time(message: str) -> bool:
    """Say whether this process, or an earlier one, has not seen the message yet."""
    try:
        (_folder() / f"seen-{message}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _folder() -> Path:
    """Where processes leave each other notes."""
    return Path(os.environ["HANDLING_FOLDER"])
