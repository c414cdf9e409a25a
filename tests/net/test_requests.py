"""What is written into a request, and that each request gets the answer to itself."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from mailonce.errors import RefusedError
from mailonce.net.http import HEADS_KEPT, GuardedClient
from tests.net.peer import OK, Peer, says, serving

FRAMINGS = 6
REQUESTS = 240


@pytest_asyncio.fixture
async def client() -> AsyncIterator[GuardedClient]:
    async with GuardedClient(allow_hosts=["127.0.0.1"]) as made:
        yield made


async def post(
    client: GuardedClient, peer: Peer, headers: dict[str, str], path: str = "/", body: bytes = b""
) -> list[str]:
    """Post, and give the lines of the request's head."""
    url = f"http://127.0.0.1:{peer.port}{path}"
    await client.post(url, body, headers, bytes_max=100, timeout_s=30)
    return peer.requests[-1].decode().split("\r\n")[:-2]


async def test_percent_signs_stay_as_they_are(client: GuardedClient) -> None:
    async with serving(says(OK)) as peer:
        for _ in range(2):
            lines = await post(client, peer, {"x-%s": "100%s %d", "b": "%"}, "/a%20b%s?c=%d")

            assert lines[0] == "POST /a%20b%s?c=%d HTTP/1.1"
            assert {"x-%s: 100%s %d", "b: %", "content-length: 0"} <= {*lines}


async def test_values_of_an_earlier_request_are_not_those_of_a_later_one(
    client: GuardedClient,
) -> None:
    async with serving(says(OK)) as peer:
        first = await post(client, peer, {"a": "1", "b": "2"})
        second = await post(client, peer, {"b": "3", "a": "4"})
        third = await post(client, peer, {"a": "5", "b": "6"})

    assert {"a: 1", "b: 2"} <= {*first}
    assert {"a: 4", "b: 3"} <= {*second}
    assert {"a: 5", "b: 6"} <= {*third}


async def test_a_header_stands_once_in_a_request(client: GuardedClient) -> None:
    given = {"A": "1", "a": "2", "Content-Length": "9", "User-Agent": "mine", "Host": "other"}

    async with serving(says(OK)) as peer:
        lines = await post(client, peer, given)

    assert sorted(lines[1:]) == [
        "a: 2",
        "accept-encoding: identity",
        "accept: */*",
        "content-length: 0",
        "host: other",
        "user-agent: mine",
    ]


async def test_what_would_end_a_header_is_refused_also_after_good_ones(
    client: GuardedClient, subtests: pytest.Subtests
) -> None:
    async with serving(says(OK)) as peer:
        await post(client, peer, {"a": "1"})
        for headers in [
            {"a": "1\r\nb: 2"}, {"a": "\n"}, {"a": "\r"}, {"a": "\0"}, {"a b": "1"}, {"": "1"},
            {"a:": "1"}, {"a\r\nb": "1"}, {"Connection": "close"}, {"transfer-encoding": "chunked"},
        ]:  # fmt: skip
            with subtests.test(repr(headers)), pytest.raises(RefusedError, match="header"):
                await post(client, peer, headers)

    assert len(peer.requests) == 1


async def test_forms_of_requests_are_bounded(client: GuardedClient) -> None:
    async with serving(says(OK)) as peer:
        for number in range(3 * HEADS_KEPT):
            lines = await post(client, peer, {f"x-{number}": "1"})
            assert f"x-{number}: 1" in lines

        place = client._judge(f"http://127.0.0.1:{peer.port}/")

    assert len(place.heads) <= HEADS_KEPT


async def test_each_of_many_requests_gets_the_answer_to_itself(client: GuardedClient) -> None:
    async def script(
        head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
        body = await reader.readexactly(length)
        plain = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (length, body)
        match int(body) % FRAMINGS:
            case 0:
                writer.write(plain)
            case 1:
                for place in range(0, len(plain), 7):
                    writer.write(plain[place : place + 7])
                    await asyncio.sleep(0)
            case 2:
                chunk = b"%x\r\n%s\r\n0\r\n\r\n" % (length, body)
                writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk)
            case 3:
                writer.write(plain + b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged")
            case 4:
                writer.write(b"HTTP/1.1 103 Hints\r\nLink: x\r\n\r\n" + plain)
            case _:
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + body)
                await writer.drain()
                writer.close()

    async def ask(number: int) -> bytes:
        answer = await client.post(peer.url, b"%d" % number, bytes_max=100, timeout_s=60)
        return answer.body

    async with serving(script) as peer:
        answers = []
        for start in range(0, REQUESTS, 40):
            answers += await asyncio.gather(*map(ask, range(start, start + 40)))

    assert answers == [b"%d" % number for number in range(REQUESTS)]
