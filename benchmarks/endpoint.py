"""A fast endpoint: notes when the first byte about each event came, and answers 200.

`GET /` gives what it noted so far, as {number: seconds of the wall clock}; `GET /count` how many
requests came in all, which costs it nothing.
"""

import asyncio
import json
import re
import sys
import time
from typing import cast

import uvloop

_LENGTH = re.compile(rb"(?i)\r\ncontent-length:\s*(\d+)\r\n")
_NUMBER = re.compile(rb'"recipient":"customer-(\d+)@')
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"

noted: dict[int, float] = {}
taken = 0


class Endpoint(asyncio.Protocol):
    """Understands what our own client sends, and no more."""

    def __init__(self) -> None:
        self._buffer = b""
        self._first_s = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if not self._buffer:
            self._first_s = time.time()
        self._buffer += data
        while self._take():
            self._first_s = time.time()

    def _take(self) -> bool:
        global taken  # noqa: PLW0603
        head = self._buffer.find(b"\r\n\r\n")
        if head < 0:
            return False
        if self._buffer.startswith(b"GET"):
            is_count = self._buffer.startswith(b"GET /count")
            body = json.dumps(taken if is_count else noted).encode()
            self._buffer = b""
            self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body))
            self._transport.write(body)
            return False
        length = _LENGTH.search(self._buffer, 0, head + 2)
        end = head + 4 + (int(length[1]) if length else 0)
        if len(self._buffer) < end:
            return False
        taken += 1
        number = _NUMBER.search(self._buffer, head, end)
        if number is not None:
            noted.setdefault(int(number[1]), self._first_s)
        self._buffer = self._buffer[end:]
        self._transport.write(OK)
        return bool(self._buffer)


async def main(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Endpoint, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
