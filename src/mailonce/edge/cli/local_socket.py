"""The socket by which commands reach a server on the same machine."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SOCKET_NAME = "mailonce.sock"
# Every system takes a name of this length; Linux takes 107 bytes.
_NAME_BYTES_MAX = 100
_DESCRIPTORS = Path("/proc/self/fd")
CONNECT_TIMEOUT_S = 5


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
            except OSError:
                return False
    return True
