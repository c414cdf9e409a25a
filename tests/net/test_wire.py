"""The client against a peer that says exactly what a test wants, byte by byte."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from mailonce.errors import RefusedError, SizeError, UnavailableError
from mailonce.net import pool
from mailonce.net.http import GuardedClient
from mailonce.net.response import HEAD_BYTES_MAX, EndpointResponse
from tests.net.peer import OK, Peer, says, serving, until


@pytest_asyncio.fixture
async def client() -> AsyncIterator[GuardedClient]:
    async with GuardedClient(allow_hosts=["127.0.0.1"]) as made:
        yield made


async def post(
    client: GuardedClient, peer: Peer, body: bytes = b"", **named: float
) -> EndpointResponse:
    return await client.post(peer.url, body, bytes_max=100, timeout_s=named.get("timeout_s", 5.0))


async def get(client: GuardedClient, peer: Peer, **named: float) -> EndpointResponse:
    return await client.get(peer.url, bytes_max=100, timeout_s=named.get("timeout_s", 5.0))


CHUNKED = b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("pieces", "then_close", "status", "body", "kept"),
    [
        ((OK,), False, 200, b"ok", True),
        ((OK[:20], OK[20:]), False, 200, b"ok", True),
        ((CHUNKED, b"3\r\nabc\r\n", b"0\r\n\r\n"), False, 201, b"abc", True),
        ((CHUNKED, b"3\r\nabc\r\n0\r\nX-Late: 1\r\n\r\n"), False, 201, b"abc", True),
        ((b"HTTP/1.1 200 OK\r\nX: y\r\n\r\n", b"to the end"), True, 200, b"to the end", False),
        ((b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",), True, 200, b"ok", False),
        ((b"HTTP/1.1 204 None\r\n\r\n",), False, 204, b"", True),
        ((b"HTTP/1.1 304 Same\r\nContent-Length: 9\r\n\r\n",), False, 304, b"", True),
        ((b"HTTP/1.1 100 Continue\r\n\r\n", OK), False, 200, b"ok", True),
        ((b"HTTP/1.1 103 Hints\r\nLink: x\r\n\r\n" * 3 + OK,), False, 200, b"ok", True),
        (
            (b"HTTP/1.1 101 Go\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nzz",),
            False,
            101,
            b"",
            False,
        ),
        ((OK + OK,), False, 200, b"ok", False),
        ((OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"),), True, 200, b"ok", False),
    ],
)
async def test_answers_of_every_framing_are_read(
    client: GuardedClient,
    pieces: tuple[bytes, ...],
    then_close: bool,  # noqa: FBT001
    status: int,
    body: bytes,
    kept: bool,  # noqa: FBT001
) -> None:
    async with serving(says(*pieces, then_close=then_close)) as peer:
        first = await post(client, peer)
        second = await get(client, peer)

    assert [(one.status, one.body) for one in (first, second)] == [(status, body)] * 2
    assert "x-late" not in first.headers
    assert "link" not in first.headers
    assert peer.opened == (1 if kept else 2)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * (2 * HEAD_BYTES_MAX),
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * HEAD_BYTES_MAX,
        b"HTTP/1.1 100 Continue\r\n\r\n" * HEAD_BYTES_MAX,
    ],
    ids=["nothing", "half", "ssh", "two_lengths", "long_header", "many_headers", "interim"],
)
async def test_what_is_no_answer_is_unavailable_and_asked_for_once(
    client: GuardedClient, answer: bytes
) -> None:
    async with serving(says(answer, then_close=True)) as peer:
        with pytest.raises(UnavailableError, match="could not be reached"):
            await post(client, peer)

    assert len(peer.requests) == 1


@pytest.mark.parametrize(
    ("rest", "then_close"),
    [(b"only this", True), (b"only this", False), (b"", False), (b"", True)],
)
async def test_headers_that_came_whole_are_the_answer_to_a_post(
    client: GuardedClient,
    rest: bytes,
    then_close: bool,  # noqa: FBT001
) -> None:
    head = b"HTTP/1.1 202 Yes\r\nContent-Length: 50\r\nX-Mailonce-Gate: processing\r\n\r\n"
    async with serving(says(head + rest, then_close=then_close)) as peer:
        answer = await post(client, peer, timeout_s=2.0)
        with pytest.raises(UnavailableError):
            await get(client, peer, timeout_s=0.3)

    assert (answer.status, answer.body) == (202, rest)
    assert answer.headers["x-mailonce-gate"] == "processing"


async def test_a_bad_chunk_after_the_headers_changes_no_answer(client: GuardedClient) -> None:
    async with serving(says(CHUNKED + b"zz\r\n")) as peer:
        answer = await post(client, peer)

    assert answer.status == 201


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n" + b"x" * 500,
        CHUNKED + b"1;" + b"e" * 90_000 + b"\r\n",
        CHUNKED + b"1\r\nx\r\n0\r\nX-Trailer: " + b"t" * 90_000,
    ],
    ids=["body", "chunk_extension", "trailer"],
)
async def test_an_answer_without_end_is_cut_at_its_bounds(
    client: GuardedClient, answer: bytes
) -> None:
    async with serving(says(answer)) as peer:
        posted = await post(client, peer)
        with pytest.raises((SizeError, UnavailableError)):
            await get(client, peer)

    assert posted.status in {200, 201}
    assert len(posted.body) <= 100


async def test_a_connection_serves_many_requests(client: GuardedClient) -> None:
    async def script(
        head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        body = await reader.readexactly(length)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (length, body))

    async with serving(script) as peer:
        answers = [await post(client, peer, b"%d" % number) for number in range(20)]

    assert [answer.body for answer in answers] == [b"%d" % number for number in range(20)]
    assert peer.opened == 1
    assert peer.requests[0].startswith(b"POST /hook?a=1 HTTP/1.1\r\nhost: 127.0.0.1:")


async def test_a_post_on_a_connection_that_just_ended_is_not_sent_twice(
    client: GuardedClient,
) -> None:
    async def script(_: bytes, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if peer.opened == 1 and len(peer.requests) == 2:
            writer.close()
        else:
            writer.write(OK)

    async with serving(script) as peer:
        await post(client, peer)
        with pytest.raises(UnavailableError, match="without an answer"):
            await post(client, peer)
        posted = len(peer.requests)
        peer.requests.clear()
        peer.opened = 0
        await get(client, peer)
        again = await get(client, peer)

    assert posted == 2
    assert again.status == 200, "a GET changes nothing, so it is asked once more"
    assert len(peer.requests) == 3


async def test_a_connection_closed_while_idle_is_not_used(client: GuardedClient) -> None:
    async with serving(says(OK, then_close=True)) as peer:
        for _ in range(3):
            assert (await post(client, peer)).status == 200
            await until(lambda: not len(client._pool))

    assert peer.opened == 3


async def test_what_comes_unasked_is_nobodys_answer(client: GuardedClient) -> None:
    async def script(_: bytes, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged")

    async with serving(script) as peer:
        bodies = []
        for _ in range(2):
            bodies.append((await post(client, peer)).body)
            await until(lambda: not len(client._pool))

    assert bodies == [b"ok", b"ok"]
    assert peer.opened == 2


async def test_connections_of_one_origin_are_bounded(
    client: GuardedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "ORIGIN_CONNECTIONS_MAX", 2)

    async with serving(says(b"", OK)) as peer:
        answers = await asyncio.gather(*(post(client, peer) for _ in range(9)))

    assert [answer.status for answer in answers] == [200] * 9
    assert peer.open_most == 2


async def test_connections_in_all_are_bounded_and_idle_ones_make_room(
    client: GuardedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "CONNECTIONS_MAX", 1)

    async with serving(says(OK)) as one, serving(says(OK)) as other:
        for peer in (one, other, one):
            assert (await post(client, peer)).status == 200
        size = len(client._pool)

    assert size == 1
    assert (one.opened, other.opened) == (2, 1)


async def test_one_who_waits_for_room_gives_up_in_time(
    client: GuardedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "ORIGIN_CONNECTIONS_MAX", 1)

    async with serving(says(b"")) as peer:
        slow = asyncio.create_task(post(client, peer, timeout_s=5))
        await asyncio.sleep(0.05)
        with pytest.raises(UnavailableError, match="did not answer"):
            await post(client, peer, timeout_s=0.1)
        slow.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await slow
        await until(lambda: (len(client._pool), peer.open_now) == (0, 0))


async def test_idle_connections_end_by_themselves(
    client: GuardedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "IDLE_S", 0.05)
    monkeypatch.setattr(pool, "SWEEP_S", 0.05)

    async with serving(says(OK)) as peer:
        await post(client, peer)
        kept = peer.open_now
        await until(lambda: (len(client._pool), peer.open_now) == (0, 0))

    assert kept == 1


class TwoAddresses:
    async def resolve(self, host: str) -> tuple[str, ...]:
        del host
        return ("127.0.0.9", "127.0.0.1")

    def close(self) -> None:
        return None


async def test_the_next_address_is_tried_where_one_refuses() -> None:
    async with serving(says(OK)) as peer:
        client = GuardedClient(allow_hosts=["two.example"], resolver=TwoAddresses())
        async with client:
            answer = await client.post(
                f"http://two.example:{peer.port}/", b"", bytes_max=9, timeout_s=5
            )

    assert answer.status == 200
    assert f"host: two.example:{peer.port}\r\n".encode() in peer.requests[0]


async def test_an_answer_before_the_end_of_a_body_in_pieces_counts(client: GuardedClient) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"x"
            await asyncio.sleep(0.01)

    async with serving(says(b"HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n")) as peer:
        answer = await client.post(
            peer.url, pieces(), {"Content-Length": "100"}, bytes_max=9, timeout_s=5
        )

    assert answer.status == 413
    assert len(client._pool) == 0, "the rest of the body must not begin the next request"


LARGE = 32 * 1024 * 1024


async def _answers_unread(
    head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Answer at once, and never read the body nor hang up."""
    del head, reader
    writer.write(OK)
    await writer.drain()
    await asyncio.sleep(3600)


async def test_an_endpoint_that_answers_and_does_not_read_keeps_no_socket(
    client: GuardedClient,
) -> None:
    is_seen = asyncio.Event()

    async def answer_once_seen(
        head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await is_seen.wait()
        await _answers_unread(head, reader, writer)

    async with serving(answer_once_seen) as peer:
        posting = asyncio.create_task(post(client, peer, b"x" * LARGE))
        await until(lambda: bool(client._pool._origins))
        [connection] = client._pool._origins
        assert connection._transport is not None
        socket = connection._transport.get_extra_info("socket")
        is_seen.set()
        answer = await posting
        await until(lambda: socket.fileno() == -1)

    assert answer.status == 200


async def test_an_endpoint_that_answers_and_does_not_read_ends_a_body_in_pieces(
    client: GuardedClient,
) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(LARGE // 65_536):
            yield b"x" * 65_536

    length = {"Content-Length": str(LARGE)}
    async with serving(_answers_unread) as peer, asyncio.timeout(60):
        answer = await client.post(peer.url, pieces(), length, bytes_max=9, timeout_s=5)

    assert answer.status == 200


async def test_a_body_in_pieces_that_breaks_off_ends_its_connection(client: GuardedClient) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"x"
        raise LookupError

    async with serving(says(b"")) as peer:
        with pytest.raises(LookupError):
            await client.post(
                peer.url, pieces(), {"Content-Length": "2"}, bytes_max=9, timeout_s=60
            )
        await until(lambda: not len(client._pool))


async def test_a_connection_that_has_idled_for_too_long_is_not_used(
    client: GuardedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its server is about to hang up, and nobody has swept yet."""
    monkeypatch.setattr(pool, "IDLE_S", 0.05)
    monkeypatch.setattr(pool, "SWEEP_S", 60.0)

    async with serving(says(OK)) as peer:
        await post(client, peer)
        await asyncio.sleep(0.1)
        await post(client, peer)
        await until(lambda: len(client._pool) == 1)

    assert peer.opened == 2


async def test_a_connection_that_is_just_ending_is_not_used(client: GuardedClient) -> None:
    async with serving(says(OK)) as peer:
        await post(client, peer)
        [connection] = client._pool._origins
        assert connection._transport is not None
        # What a transport does by itself when it reads the end; we are told in the next turn.
        connection._transport.close()
        answer = await post(client, peer)

    assert answer.status == 200
    assert peer.opened == 2


@pytest.mark.parametrize("host", ["a" * 64 + ".example", ".example.com"])
async def test_a_name_that_nobody_can_have_is_an_error_of_ours(host: str) -> None:
    async with GuardedClient() as client:
        with pytest.raises((UnavailableError, RefusedError)):
            await client.get(f"https://{host}/", bytes_max=9, timeout_s=5)
