"""The socket by which commands reach a server on the same machine.

A data folder has a few names for sockets, each with a lock file beside it. Whoever holds the lock
owns the name: no other process binds it or removes it, and a crash gives it back. So a second
server in the same folder has a socket of its own, and ends without taking the first one's away.
"""

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mailonce.errors import ConfigError

# The first is the only one where each server has a folder of its own.
SOCKET_NAMES = ("mailonce.sock", *(f"mailonce-{number}.sock" for number in range(2, 17)))
# Every system takes a name of this length; Linux takes 107 bytes.
_NAME_BYTES_MAX = 100
_DESCRIPTORS = Path("/proc/self/fd")
CONNECT_TIMEOUT_S = 5
BACKLOG = 128


def find_socket(data_dir: Path) -> Path | None:
    """Find the socket of a server that runs in that folder; None where none does.

    Raises: ConfigError where the folder is another user's.
    """
    folder = data_dir.absolute()
    try:
        return next((folder / one for one in SOCKET_NAMES if is_listening(folder / one)), None)
    except PermissionError as error:
        raise ConfigError(
            f"`data_dir` {str(folder)!r} cannot be looked into ({error.strerror}); run this "
            "command as the user that runs the server"
        ) from error


@contextmanager
def open_local_socket(data_dir: Path) -> Iterator[socket.socket | None]:
    """Open a socket for this user's own command line; file permissions are its password.

    Gives None where the system has no name for one, or all names are taken.
    """
    with contextlib.ExitStack() as owned:
        path = _own_name(data_dir.absolute(), owned)
        if path is None:
            yield None
            return
        path.unlink(missing_ok=True)
        owned.callback(path.unlink, missing_ok=True)
        with socket_name(path) as name:
            if name is None:
                yield None
                return
            door = owned.enter_context(socket.socket(socket.AF_UNIX))
            mask = os.umask(0o177)
            try:
                door.bind(name)
            finally:
                os.umask(mask)
        # From here on a command waits for us; a bare name would look like one left by a crash.
        door.listen(BACKLOG)
        yield door


def _own_name(folder: Path, owned: contextlib.ExitStack) -> Path | None:
    """Take the first name that nobody has; `owned` gives it back.

    Raises: ConfigError where the folder cannot be written.
    """
    for name in SOCKET_NAMES:
        path = folder / name
        try:
            lock = os.open(path.with_suffix(".sock-lock"), os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise ConfigError(
                f"`data_dir` {str(folder)!r} cannot be written ({error.strerror}); choose a folder "
                "of the user that runs the server"
            ) from error
        owned.callback(os.close, lock)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue
        # A server of an earlier version has no lock.
        if not is_listening(path):
            return path
    return None


@contextmanager
def socket_name(path: Path) -> Iterator[str | None]:
    """Give the name under which a socket is bound or reached; None where the system has none.

    The kernel limits the name's length. A path that is longer is named by the descriptor of its
    folder, where the system shows these as files.
    """
    if len(os.fsencode(path)) <= _NAME_BYTES_MAX:
        yield str(path)
        return
    if not _DESCRIPTORS.is_dir() or not path.parent.is_dir():
        yield None
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"{_DESCRIPTORS}/{folder}/{path.name}"
    finally:
        os.close(folder)


def is_listening(path: Path) -> bool:
    """Say whether a server answers at that socket; a crash may leave one that nobody serves."""
    with socket_name(path) as name:
        if name is None or not path.is_socket():
            return False
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(CONNECT_TIMEOUT_S)
            try:
                probe.connect(name)
            except BlockingIOError:
                # It has more connections to take than it can remember: it lives.
                return True
            except OSError:
                return False
    return True
