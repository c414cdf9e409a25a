"""The load for SMTP: a process of its own that sends mails of 10 kB over sessions that stay open.

Plain sockets and epoll, as in `benchmarks.blast`. Each session sends its next command when the last
was answered, as most senders do; latencies are those from the last byte of a mail to its reply.
"""

import select
import socket
import sys
import time
from functools import partial

from benchmarks.blast import STALL_S, Order, Outcome, answer_orders

MAIL_BYTES = 10_000
_LINE = b"0123456789" * 7 + b"\r\n"


def tail() -> bytes:
    """Give what all mails share: the rest of the body, and the end."""
    return _LINE * (MAIL_BYTES // len(_LINE)) + b".\r\n"


class Session:
    """One connection, which sends one mail after the other to an inbox of its own."""

    def __init__(self, port: int, number: int, domain: str) -> None:
        self._recipient = f"box{number}@{domain}".encode()
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._steps = 0
        self.mail = 0
        self.sent_s = 0.0
        for words in (b"", b"EHLO load.test\r\n"):
            self.socket.sendall(words)
            answer = b""
            while not answer.endswith(b"\n") or answer.rsplit(b"\n", 2)[-2][3:4] == b"-":
                answer += self.socket.recv(4096)
            assert answer[:1] == b"2", answer

    def begin(self, mail: int) -> None:
        self.mail, self._steps = mail, 0
        self.socket.sendall(b"MAIL FROM:<load@load.test>\r\n")

    def go_on(self, rest: bytes) -> bool:
        """Say what follows; say whether the mail was answered."""
        self._steps += 1
        if self._steps == 1:
            self.socket.sendall(b"RCPT TO:<%b>\r\n" % self._recipient)
        elif self._steps == 2:
            self.socket.sendall(b"DATA\r\n")
        elif self._steps == 3:
            head = (
                b"From: load@load.test\r\nTo: %b\r\nSubject: mail %d\r\nMessage-ID: <%d@load.test>"
                b"\r\n\r\n%d\r\n"
            ) % (self._recipient, self.mail, self.mail, self.mail)
            self.socket.sendall(head + rest)
            self.sent_s = time.perf_counter()
        return self._steps == 4


def blast(order: Order) -> Outcome:
    """Send until the mails or the time run out, then wait for the replies still to come."""
    rest = tail()
    sessions = {}
    poll = select.epoll()
    for number in range(order.connections):
        session = Session(order.port, number, order.path)
        sessions[session.socket.fileno()] = session
        poll.register(session.socket, select.EPOLLIN)
    mails = iter(range(order.first, order.first + order.count))
    latencies: list[float] = []
    answered: list[int] = []
    started = now = time.perf_counter()
    stop = started + order.seconds
    for session in sessions.values():
        session.begin(next(mails))
    waiting = set(sessions)
    while waiting:
        ready = poll.poll(STALL_S)
        if not ready:
            raise TimeoutError(f"no reply for {STALL_S} s")
        for fd, _ in ready:
            session = sessions[fd]
            reply = session.socket.recv(4096)
            if reply[:1] not in {b"2", b"3"}:
                raise ConnectionError(f"the server answered {reply[:80]!r}")
            if not session.go_on(rest):
                continue
            now = time.perf_counter()
            latencies.append(now - session.sent_s)
            answered.append(session.mail)
            following = next(mails, None) if now < stop else None
            if following is None:
                waiting.discard(fd)
                poll.unregister(fd)
            else:
                session.begin(following)
    for session in sessions.values():
        session.socket.close()
    latencies.sort()
    return Outcome(
        seconds=now - started,
        ok=len(answered),
        p50_ms=latencies[len(latencies) // 2] * 1000,
        p99_ms=latencies[int(len(latencies) * 0.99)] * 1000,
        answered=answered,
    )


if __name__ == "__main__":
    answer_orders(sys.stdin, sys.stdout, lambda order: partial(blast, order))
