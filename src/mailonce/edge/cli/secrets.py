"""Secrets that were made for the operator: shown once, or kept in a file of theirs."""

import contextlib
import os
import re
import sys
from pathlib import Path

from rich.console import Console

from mailonce.manage.settings_file import ShowSecret
from mailonce.telemetry import PRIVATE_FILE_WRITTEN, log

ADMIN_KEY_HINT = "(lost? `mailonce key add --scope admin` makes another, on this machine)"

DELETE = "only you may read the file; delete it afterwards"


def secret_shower(data_dir: Path, *, is_printed: bool, is_logged: bool = False) -> ShowSecret:
    """Give what shows a secret as soon as it is made: what fails after that must not cost it.

    Standard error that is no terminal goes to a log, where secrets do not belong: they are written
    to a file that only this user may read, unless the operator wants them printed. `is_logged`: the
    log says where that file is, and nothing else may stand between its lines.
    """

    def show(what: str, secret: str) -> None:
        hint = f" {ADMIN_KEY_HINT}" if what == "admin key" else ""
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        if is_printed or sys.stderr.isatty():
            console.print(f"{what}, shown this once: [bold]{secret}[/bold]{hint}")
            return
        path = data_dir.absolute() / f"{re.sub('[^A-Za-z0-9._-]+', '-', what)}.txt"
        write_private(path, secret)
        if is_logged:
            log.info(PRIVATE_FILE_WRITTEN, holds=what, path=str(path), advice=DELETE)
            return
        console.print(f"{what}: see {path}, which only you may read; delete it afterwards{hint}")

    return show


def write_private(path: Path, text: str) -> None:
    """Write a file that only this user may read, whole or not at all."""
    new = path.with_name(f"{path.name}.{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        new.unlink()
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
