"""Answers as plain servers write them: whoever ends one by hanging up has answered, too."""

import asyncio

import pytest

from mailonce.testing.simulator import Post
from mailonce.testing.wire import PostResponse, ReceiverConnection, place_of, written

ANSWERS = {
    "HTTP/1.0, no length": b"HTTP/1.0 200 OK\r\nServer: x\r\n\r\nok",
    "HTTP/1.0, no length, no body": b"HTTP/1.0 200 OK\r\n\r\n",
    "HTTP/1.0, with length": b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "close, no length": b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok",
    "no length": b"HTTP/1.1 200 OK\r\n\r\nok",
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
async def test_an_answer_that_ends_with_its_connection_is_one(answer: bytes) -> None:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.readuntil(b"{}")
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    place = place_of(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook")
    request = written(place, "", Post(headers={}, body=b"{}"))
    connection = ReceiverConnection(place)

    answers = [await connection.ask(request) for _ in range(2)]

    body = answer.partition(b"\r\n\r\n")[2]
    assert answers == [PostResponse(200, body)] * 2
    assert connections == 2
    connection.close()
    server.close()
