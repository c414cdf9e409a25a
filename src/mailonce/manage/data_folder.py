"""The data folder: made by a start, or only looked at."""

import contextlib
import errno
import os
from pathlib import Path

from mailonce.errors import ConfigError

# The database of a data folder, where the settings name none.
SQLITE_NAME = "mailonce.db"


def make_folder(path: Path) -> None:
    """Make the data folder, unless it is there.

    Raises: ConfigError, in one sentence.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _refusal(path, error.strerror) from error


def check_folder(path: Path) -> None:
    """Check that `make_folder` could do its work; nothing is made.

    Raises: as `make_folder` does.
    """
    whole = path.absolute()
    # A link to nothing is in the way, too.
    nearest = next(one for one in (whole, *whole.parents) if os.path.lexists(one))
    if nearest.is_dir():
        if nearest != whole and not os.access(nearest, os.W_OK | os.X_OK):
            raise _refusal(path, os.strerror(errno.EACCES))
        return
    raise _refusal(path, os.strerror(errno.EEXIST if nearest == whole else errno.ENOTDIR))


def other_database(folder: Path, used: Path | None) -> Path | None:
    """Find a SQLite database of mailonce in the data folder that is not the one in use.

    `used` is the file in use; None where the database is no file.
    """
    file = folder / SQLITE_NAME
    with contextlib.suppress(OSError):
        is_there = file.is_file() and file.stat().st_size > 0
        if is_there and (used is None or file.resolve() != used.resolve()):
            return file
    return None


def _refusal(path: Path, why: str | None) -> ConfigError:
    return ConfigError(
        f"`data_dir` {str(path)!r} cannot be made ({why}); choose a folder that can be written"
    )
