"""The HTTP server of the fakes: it reads what clients send, and answers what it cannot read."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from mailonce.testing.fakes.http_server import FakeHttpServer, FakeReply, FakeRequest


async def echo(request: FakeRequest) -> FakeReply:
    return FakeReply(200, request.body or b"nothing")


@pytest.fixture
async def server() -> AsyncIterator[FakeHttpServer]:
    server = FakeHttpServer(echo)
    await server.start()
    yield server
    await server.close()


async def test_what_cannot_be_read_is_answered(
    server: FakeHttpServer, subtests: pytest.Subtests
) -> None:
    requests = {
        b"nonsense\r\n\r\n": b"400",
        b"GET //[ HTTP/1.1\r\n\r\n": b"200",
        b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n": b"400",
        b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n": b"413",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n": b"400",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n": b"413",
        b"GET / HTTP/1.1\r\nA: " + b"a" * (65 << 10) + b"\r\n\r\n": b"431",
    }
    for request, status in requests.items():
        with subtests.test(repr(request[:60])):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(request)

            line = await asyncio.wait_for(reader.readline(), 30)

            assert line.startswith(b"HTTP/1.1 " + status)
            writer.close()


async def test_a_body_in_chunks_is_read_and_the_connection_lives_on(server: FakeHttpServer) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"seven.."

    async with httpx.AsyncClient() as client:
        url, head = f"http://127.0.0.1:{server.port}/", {"Expect": "100-continue"}
        answers = [await client.post(url, content=chunks(), headers=head) for _ in range(2)]

    assert [answer.content for answer in answers] == [b"seven.." * 3] * 2


async def test_an_answer_to_head_has_no_body(server: FakeHttpServer) -> None:
    async with httpx.AsyncClient() as client:
        url = f"http://127.0.0.1:{server.port}/"
        answers = [await client.head(url), await client.get(url)]

    assert [answer.content for answer in answers] == [b"", b"nothing"]
