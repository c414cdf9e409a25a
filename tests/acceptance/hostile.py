"""Clients that mean harm, as a process: `python -m tests.acceptance.hostile PORT SECONDS LINES`.

Each attack is a coroutine that has one connection and makes another when it is hung up on. They
stop by themselves, stay on this machine, and come from addresses 127.0.0.2 and up.
"""

import asyncio
import contextlib
import itertools
import socket
import sys
from collections import Counter
from collections.abc import Awaitable, Callable

HEAD = b"POST /in/main HTTP/1.1\r\nHost: x\r\n"
MB = 1 << 20
# A client that is hung up on comes back, but not without a breath.
AGAIN_S = 0.05

Attack = Callable[["Line"], Awaitable[None]]
done: Counter[str] = Counter()


class Line:
    """One raw connection; whatever the server does to it ends the attack."""

    def __init__(self, port: int, number: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._port = port
        self._socket = socket.socket()
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        self._socket.bind((f"127.0.0.{2 + number % 20}", 0))

    async def connect(self) -> None:
        await self._loop.sock_connect(self._socket, ("127.0.0.1", self._port))

    async def send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self._socket, data)

    async def read(self) -> bytes:
        answer = await self._loop.sock_recv(self._socket, 1 << 16)
        if not answer:
            raise ConnectionError("hung up")
        return answer

    def close(self) -> None:
        self._socket.close()


async def pipeline_unread(line: Line) -> None:
    block = b"POST /in/main HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n" * 200
    while True:
        await line.send(block)


async def pipeline_api_unread(line: Line) -> None:
    while True:
        await line.send(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 50)


async def half_head(line: Line) -> None:
    await line.send(HEAD + b"X-A: " + b"v" * 30_000)
    while True:
        await asyncio.sleep(1)
        await line.send(b"v")


async def half_body(line: Line) -> None:
    await line.send(HEAD + b"Content-Length: 9000000\r\n\r\n" + b"x" * (2 * MB))
    while True:
        await asyncio.sleep(1)
        await line.send(b"x")


async def header_flood(line: Line) -> None:
    await line.send(HEAD)
    for number in itertools.count():
        await line.send(b"X-%d: %s\r\n" % (number, b"v" * 1000))


async def trailer_flood(line: Line) -> None:
    await line.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n")
    while True:
        await line.send(b"X-T: v\r\n" * 500)


async def large_refused(line: Line) -> None:
    while True:
        await line.send(HEAD + b"Content-Length: %d\r\n\r\n" % (9 * MB) + b"x" * (9 * MB))
        await line.read()


async def forged_mailgun(line: Line) -> None:
    body = b'{"a":[' + b"{}," * (3 * MB) + b"{}]}"
    head = b"POST /in/gun HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
    while True:
        await line.send(head + body)
        await line.read()


async def forged_mail(line: Line) -> None:
    """Post as much as only mail may have, full of what looks like the end of a part."""
    body = b"--b\r\n" + b"\r\n--b " * (5 * MB)
    head = (
        b"POST /in/gun HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=b\r\n"
        b"Content-Length: %d\r\n\r\n" % len(body)
    )
    while True:
        await line.send(head + body)
        await line.read()


async def api_body(line: Line) -> None:
    await line.send(b"POST /v1/routes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        await line.send(b"10000\r\n" + b" " * 0x10000 + b"\r\n")


async def silent(line: Line) -> None:
    await line.read()


async def come_and_go(line: Line) -> None:
    await line.send(b"\x16\x03\x01")


ATTACKS: dict[Attack, int] = {
    # Of a hundred connections.
    pipeline_unread: 15, pipeline_api_unread: 10, half_head: 20, half_body: 15, header_flood: 5,
    trailer_flood: 5, large_refused: 2, forged_mailgun: 1, forged_mail: 1, api_body: 5, silent: 14,
    come_and_go: 7,
}  # fmt: skip


async def attack(attack_: Attack, port: int, number: int) -> None:
    while True:
        line = Line(port, number)
        try:
            await line.connect()
            await attack_(line)
        except OSError:
            pass
        finally:
            done[attack_.__name__] += 1
            line.close()
        await asyncio.sleep(AGAIN_S)


async def main(port: int, seconds: float, lines: int) -> None:
    shares = list(itertools.chain.from_iterable([one] * share for one, share in ATTACKS.items()))
    kinds = list(ATTACKS) if lines < len(shares) else shares
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            for number, one in zip(range(lines), itertools.cycle(kinds), strict=False):
                group.create_task(attack(one, port, number))
    print(dict(done))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])))
