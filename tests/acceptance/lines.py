"""Raw connections to a server: what well-behaved clients never do."""

import socket
import time
from collections.abc import Iterable
from pathlib import Path

from tests.acceptance.harness import Server


def connect(
    server: Server, *, address: str = "127.0.0.1", buffer: int | None = None
) -> socket.socket:
    """Open a connection from an address of this machine."""
    line = socket.socket()
    if buffer is not None:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    line.bind((address, 0))
    line.settimeout(60)
    line.connect(("127.0.0.1", server.port))
    return line


def webhook(
    body: bytes, headers: Iterable[tuple[str, str]] = (), *, path: str = "/in/main"
) -> bytes:
    """Write a POST as it goes over the wire."""
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def send_all(line: socket.socket, data: bytes) -> bool:
    """Send; say whether the server took it all before it hung up."""
    try:
        line.sendall(data)
    except OSError:
        return False
    return True


def heard(line: socket.socket, *, seconds: float = 60) -> bytes:
    """Read until the server hangs up."""
    answer = b""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        line.settimeout(left)
        try:
            piece = line.recv(1 << 16)
        except TimeoutError:
            break
        except OSError:
            return answer
        if not piece:
            return answer
        answer += piece
    raise AssertionError(f"the server did not hang up within {seconds} s; it said {answer[:200]!r}")


def hear(line: socket.socket, count: int = 1, *, seconds: float = 60) -> bytes:
    """Read until so many answers have begun and the last has come, or the server hangs up."""
    answer = b""
    end = time.monotonic() + seconds
    while (
        answer.count(b"HTTP/1.1 ") < count or b"\r\n\r\n" not in answer.rpartition(b"HTTP/1.1 ")[2]
    ):
        line.settimeout(max(0.01, end - time.monotonic()))
        piece = line.recv(1 << 16)
        if not piece:
            break
        answer += piece
    return answer


def resident_mb(server: Server) -> int:
    """How much memory the server's process takes now."""
    status = Path(f"/proc/{server.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) >> 10
