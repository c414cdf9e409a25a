"""The data folder: made by a start, or only looked at."""

import errno
import os
from pathlib import Path

from mailonce.errors import ConfigError


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


def _refusal(path: Path, why: str | None) -> ConfigError:
    return ConfigError(
        f"`data_dir` {str(path)!r} cannot be made ({why}); choose a folder that can be written"
    )
