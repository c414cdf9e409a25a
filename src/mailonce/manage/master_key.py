"""The master key, which encrypts stored secrets: given by the operator, else made in a file."""

import os
from pathlib import Path

from mailonce.clock import Clock
from mailonce.manage.records import several
from mailonce.settings import Settings
from mailonce.telemetry import MASTER_KEY_MADE, log

MASTER_KEY_ADVICE = (
    "every process on this database needs it to read the stored secrets: "
    "set MAILONCE_MASTER_KEY to its content, and keep a copy of it"
)


def master_keys_of(settings: Settings, clock: Clock) -> list[str]:
    """Take the master keys from the settings, else from a file that only we may read."""
    given = several(settings.master_key)
    if given:
        return list(given)
    path: Path = settings.data_dir / "master.key"
    if not path.exists():
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(clock.chance(32).hex() + "\n")
            file.flush()
            os.fsync(file.fileno())
        if settings.sqlite_file is None:
            log.warning(MASTER_KEY_MADE, path=str(path.absolute()), advice=MASTER_KEY_ADVICE)
    return path.read_text().split()
