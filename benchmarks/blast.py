"""The load: a process of its own that sends requests built before over keep-alive connections.

Plain sockets and epoll, because each microsecond spent here is taken from the servers on the same
cores. Each connection sends its next request when the answer to the last one is complete.
"""

import gc
import json
import select
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import islice
from typing import Any, TextIO

from benchmarks.requests import BUILDERS

# Answers are flat JSON objects: the only closing brace is their last byte.
END = ord("}")
STALL_S = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What to send, and for how long at most."""

    port: int
    path: str
    kind: str = "single"
    connections: int = 64
    seconds: float = 3.0
    first: int = 0
    count: int = 1000


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What came back. `answered` are the numbers of the requests that got a 200 or 202."""

    seconds: float = 0.0
    ok: int = 0
    other: int = 0
    statuses: dict[str, int] = field(default_factory=dict)
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    answered: list[int] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Requests answered with success in a second."""
        return self.ok / self.seconds


def answer_orders(
    orders: TextIO, answers: TextIO, build: Callable[[Order], Callable[[], Outcome]]
) -> None:
    """Take an order per line; say when what it asks for is built, and send at the next line."""
    for line in orders:
        send = build(Order(**json.loads(line)))
        gc.freeze()
        _say(answers, {"ready": True})
        orders.readline()
        _say(answers, asdict(send()))


def build(order: Order) -> Callable[[], Outcome]:
    """Build the requests of an order."""
    return partial(blast, order, BUILDERS[order.kind](order.path, order.first, order.count))


def blast(order: Order, requests: list[bytes]) -> Outcome:
    """Send until the requests or the time run out, then wait for the answers still owed."""
    poll = select.epoll()
    sockets = [
        socket.create_connection(("127.0.0.1", order.port)) for _ in range(order.connections)
    ]
    receive = {one.fileno(): one.recv for one in sockets}
    send = {one.fileno(): one.sendall for one in sockets}
    for one in sockets:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        poll.register(one, select.EPOLLIN)
    # What came is looked at when all is over.
    answers: list[tuple[int, float, bytes]] = []
    clock = time.perf_counter
    started = now = clock()
    stop = started + order.seconds
    waiting: dict[int, tuple[int, float]] = {}
    parts: dict[int, bytes] = {}
    numbered = enumerate(requests, order.first)
    for fd, (number, request) in zip(send, islice(numbered, order.connections), strict=False):
        waiting[fd] = (number, clock())
        send[fd](request)
    while waiting:
        ready = poll.poll(STALL_S)
        if not ready:
            raise TimeoutError(f"no answer for {STALL_S} s")
        for fd, _ in ready:
            data = receive[fd](65536)
            if not data:
                raise ConnectionError(f"the server closed a connection after {parts.get(fd)!r}")
            if parts and fd in parts:
                data = parts.pop(fd) + data
            if data[-1] != END:
                parts[fd] = data
                continue
            now = clock()
            number, sent = waiting[fd]
            answers.append((number, now - sent, data))
            following = next(numbered, None) if now < stop else None
            if following is None:
                del waiting[fd]
                # The server may close it while others still wait for their answers.
                poll.unregister(fd)
            else:
                waiting[fd] = (following[0], now)
                send[fd](following[1])
    for one in sockets:
        one.close()
    return _outcome(answers, now - started)


def _outcome(answers: list[tuple[int, float, bytes]], seconds: float) -> Outcome:
    good = [one for one in answers if one[2].startswith((b"HTTP/1.1 200", b"HTTP/1.1 202"))]
    words = Counter(_word(data) for _, _, data in good)
    outcome = Outcome(
        seconds=seconds,
        ok=len(good),
        other=len(answers) - len(good),
        statuses={word.decode(): count for word, count in words.items()},
        answered=[number for number, _, _ in good],
    )
    ordered = sorted(latency_s for _, latency_s, _ in good)
    if ordered:
        outcome.p50_ms = ordered[len(ordered) // 2] * 1000
        outcome.p99_ms = ordered[int(len(ordered) * 0.99)] * 1000
    return outcome


def _word(data: bytes) -> bytes:
    """Give what became of an arrival (`status`), or of a mail to send (`state`)."""
    name = b'"status":"' if b'"status":"' in data else b'"state":"'
    return data[data.index(name) + len(name) :].partition(b'"')[0]


def _say(answers: TextIO, what: dict[str, Any]) -> None:
    answers.write(json.dumps(what) + "\n")
    answers.flush()


if __name__ == "__main__":
    answer_orders(sys.stdin, sys.stdout, build)
