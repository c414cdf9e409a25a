"""Listening sockets, and how many connections a process has files for."""

import resource
import socket

from mailonce.errors import ConfigError

PORT_OPTION = "--port, or with MAILONCE_PORT=… before the command"
ACCEPTS_PER_TURN = 8
# More open files than anybody needs; where the system allows any number, this is enough.
FILES_MAX = 65_536


def bind(host: str, port: int, *, option: str) -> socket.socket:
    """Bind a socket that does not listen yet; `option` is where another port is chosen.

    Raises: ConfigError where the address is taken or not ours.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except (OSError, TypeError) as error:
        listener.close()
        raise _refusal(f"{host}:{port}", error, option) from error
    return listener


def listen(listener: socket.socket, backlog: int, *, option: str) -> None:
    """Let clients connect to a bound socket.

    Raises: ConfigError where another process bound the same port, and listens there since.
    """
    try:
        listener.listen(backlog)
    except OSError as error:
        raise _refusal(address_of(listener), error, option) from error


def _refusal(address: str, error: OSError | TypeError, option: str) -> ConfigError:
    # Python says so of a name that no host can have, before it asks anybody for it.
    why = error.strerror if isinstance(error, OSError) else "no name of a host"
    return ConfigError(f"cannot listen on {address} ({why}); choose another with {option}")


def sockets_of(listener: socket.socket) -> list[socket.socket]:
    """Give a listening socket several times over, so that several clients get in at once.

    libuv accepts one connection per socket in a turn of the event loop, however many wait. When
    turns are long, new clients would queue for seconds behind a few hundred others.
    """
    return [listener, *(listener.dup() for _ in range(ACCEPTS_PER_TURN - 1))]


def raise_open_files() -> int:
    """Let this process open as many files as the system allows; say how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, FILES_MAX)
    files = max(soft, wanted)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    return files


def address_of(listener: socket.socket) -> str:
    """Write the address of a socket as in a URL."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
