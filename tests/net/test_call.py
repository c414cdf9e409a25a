"""A call that is made once: what is known when it fails, and what no server can talk us into."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from mailonce.errors import RefusedError, UnavailableError
from mailonce.net.http import GuardedClient, NotCalledError
from mailonce.net.response import EndpointResponse
from tests.net.conftest import HOST, Authority
from tests.net.conftest import Peer as TlsPeer

Script = Callable[[bytes, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
LIMITS: dict[str, Any] = {"bytes_max": 1_000, "connect_timeout_s": 10, "timeout_s": 30}


@dataclass
class Server:
    """Runs `script` once for each connection; `heads` has what came, `opened` counts them."""

    script: Script
    port: int = 0
    opened: int = 0
    heads: list[bytes] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/send"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        with contextlib.suppress(OSError, EOFError):
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head)
            await self.script(head, reader, writer)
        writer.close()


@contextlib.asynccontextmanager
async def serving(script: Script) -> AsyncIterator[Server]:
    made = Server(script)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()


@pytest.fixture
async def client() -> AsyncIterator[GuardedClient]:
    async with GuardedClient(allow_hosts=["127.0.0.1"]) as made:
        yield made


async def call(
    client: GuardedClient, url: str, body: bytes = b"{}", **limits: Any
) -> EndpointResponse:
    return await client.call("POST", url, body, {"X-A": "b"}, **{**LIMITS, **limits})


def says(answer: bytes) -> Script:
    async def script(
        head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        del head, reader
        writer.write(answer)
        await writer.drain()

    return script


def hangs_after(answer: bytes) -> Script:
    async def script(
        head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        del head
        writer.write(answer)
        await reader.read()

    return script


async def test_every_call_has_a_connection_of_its_own(client: GuardedClient) -> None:
    async with serving(says(OK)) as server:
        answers = [await call(client, server.url) for _ in range(3)]

        assert [(answer.status, answer.body) for answer in answers] == [(200, b"ok")] * 3
        assert server.opened == 3
        assert all(b"\r\nconnection: close\r\n" in head for head in server.heads)
        assert server.heads[0].startswith(b"POST /send HTTP/1.1\r\n")


# Each ends without an answer: nobody knows whether the server took it.
NOT_ANSWERED = {
    "it hung up": b"",
    "half a status line": b"HTTP/1.1 20",
    "half the headers": b"HTTP/1.1 200 OK\r\nContent-Le",
    "an interim answer alone": b"HTTP/1.1 100 Continue\r\n\r\n",
    "no HTTP": b"250 ok\r\n",
    "a status that is none": b"HTTP/1.1 abc OK\r\n\r\n",
    "endless headers": b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 20_000,
}


async def test_without_an_answer_nothing_is_known(
    client: GuardedClient, subtests: pytest.Subtests
) -> None:
    for name, words in NOT_ANSWERED.items():
        with subtests.test(name):
            async with serving(says(words)) as server:
                with pytest.raises(UnavailableError) as error:
                    await call(client, server.url)

                assert not isinstance(error.value, NotCalledError)
                assert server.opened == 1, "it is not sent again"


# The status stands; of the body it is said that it is not all there.
NOT_WHOLE = {
    "cut in the middle": b"HTTP/1.1 202 OK\r\nContent-Length: 9\r\n\r\nhal",
    "a chunk that breaks off": b"HTTP/1.1 202 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhal",
    "no last chunk": b"HTTP/1.1 202 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhal\r\n",
    "a chunk that is none": b"HTTP/1.1 202 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhal",
    "longer than wanted": b"HTTP/1.1 202 OK\r\nContent-Length: 2000\r\n\r\n" + b"x" * 2_000,
}


async def test_a_status_stands_whatever_becomes_of_the_body(
    client: GuardedClient, subtests: pytest.Subtests
) -> None:
    for name, words in NOT_WHOLE.items():
        with subtests.test(name):
            async with serving(says(words)) as server:
                answer = await call(client, server.url)

                assert (answer.status, answer.is_whole) == (202, False)
                assert len(answer.body) <= LIMITS["bytes_max"]


async def test_a_body_that_hangs_is_given_up_and_the_status_stands(client: GuardedClient) -> None:
    head = b"HTTP/1.1 202 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhal\r\n"
    async with serving(hangs_after(head)) as server:
        answer = await call(client, server.url, timeout_s=0.5)

        assert (answer.status, answer.body, answer.is_whole) == (202, b"hal", False)


async def test_a_hundred_megabytes_are_not_read(client: GuardedClient) -> None:
    written = 0

    async def flood(
        head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        nonlocal written
        del head, reader
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 104857600\r\n\r\n")
        for _ in range(1_600):
            writer.write(b"x" * 65_536)
            await writer.drain()
            written += 65_536

    async with serving(flood) as server:
        answer = await call(client, server.url)

        assert (answer.status, answer.is_whole, len(answer.body)) == (200, False, 1_000)
    assert written < 50 << 20


async def test_a_server_that_never_answers_is_given_up(client: GuardedClient) -> None:
    async with serving(hangs_after(b"")) as server:
        with pytest.raises(UnavailableError, match=r"did not answer in 0\.1 s") as error:
            await call(client, server.url, timeout_s=0.1)

        assert not isinstance(error.value, NotCalledError)


async def test_an_answer_before_the_request_has_ended_says_so(client: GuardedClient) -> None:
    async with serving(hangs_after(OK)) as server:
        answer = await call(client, server.url, body=b"x" * (32 << 20))

        assert (answer.status, answer.is_asked) == (200, False)


async def test_interim_answers_are_passed_over(client: GuardedClient) -> None:
    async with serving(says(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK)) as server:
        answer = await call(client, server.url)

        assert (answer.status, dict(answer.headers).get("link")) == (200, None)


async def test_a_second_answer_is_nobodys(client: GuardedClient) -> None:
    second = b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"
    async with serving(says(OK + second)) as server:
        answer = await call(client, server.url)

        assert (answer.status, answer.body) == (200, b"ok")


async def test_nobody_listens_so_nothing_was_called(client: GuardedClient) -> None:
    async with serving(says(OK)) as server:
        url = server.url

    with pytest.raises(NotCalledError, match="could not be reached"):
        await call(client, url)


async def test_what_may_not_begin_any_more_was_not_called(client: GuardedClient) -> None:
    ended = asyncio.Event()
    came: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(await reader.read())
        writer.close()
        ended.set()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"

    with pytest.raises(NotCalledError, match="stood still"):
        await call(client, url, may_begin=lambda: False)

    await asyncio.wait_for(ended.wait(), 30)
    assert came == [b""]
    server.close()


async def test_a_name_without_an_address_was_not_called() -> None:
    class Nowhere:
        async def resolve(self, host: str) -> tuple[str, ...]:
            raise OSError(f"{host} is nowhere")

        def close(self) -> None:
            return

    async with GuardedClient(resolver=Nowhere()) as client:
        with pytest.raises(NotCalledError):
            await call(client, "https://api.example.com/send")


async def test_a_wrong_certificate_was_not_called(authority: Authority, peer: TlsPeer) -> None:
    async with GuardedClient(hosts={HOST: peer.address}) as stranger:
        with pytest.raises(NotCalledError, match="certificate is not valid"):
            await call(stranger, f"https://{HOST}/")
    other = "api.example.com"
    async with GuardedClient(hosts={other: peer.address}, ca_file=authority.ca_file) as friend:
        with pytest.raises(NotCalledError, match="certificate is not valid"):
            await call(friend, f"https://{other}/")

    assert peer.seen == []


async def test_a_call_goes_over_tls(authority: Authority, peer: TlsPeer) -> None:
    async with GuardedClient(hosts={HOST: peer.address}, ca_file=authority.ca_file) as client:
        answer = await call(client, f"https://{HOST}/ok", body=b"x" * 300_000)

    assert (answer.status, answer.body, answer.is_whole, answer.is_asked) == (
        200,
        b"fine",
        True,
        True,
    )
    assert peer.seen == [("POST", "/ok", b"x" * 300_000)]


async def test_a_handshake_that_never_ends_was_not_called(client: GuardedClient) -> None:
    async with serving(hangs_after(b"")) as server:
        url = server.url.replace("http://", "https://")
        with pytest.raises(NotCalledError, match=r"did not answer in 0\.1 s"):
            await call(client, url, connect_timeout_s=0.1)


async def test_redirects_proxies_and_cookies_lead_nowhere(
    authority: Authority, peer: TlsPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with GuardedClient(hosts={HOST: peer.address}, ca_file=authority.ca_file) as client:
        answer = await call(client, f"https://{HOST}/redirect")

    assert answer.status == 302
    assert [path for _, path, _ in peer.seen] == ["/redirect"]


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9/", "http://169.254.169.254/", "ftp://example.com/", "http://[::1]/"]
)
async def test_the_guard_judges_before_anything_is_called(url: str) -> None:
    async with GuardedClient() as client:
        with pytest.raises(RefusedError):
            await call(client, url)


async def test_a_header_cannot_bring_another_along(client: GuardedClient) -> None:
    async with serving(says(OK)) as server:
        for headers in ({"a": "b\r\nc: d"}, {"Connection": "keep-alive"}, {"a\r\nb": "c"}):
            with pytest.raises(RefusedError):
                await client.call("POST", server.url, b"", headers, **LIMITS)

        assert server.opened == 0


async def test_a_caller_who_goes_leaves_no_connection_behind(client: GuardedClient) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def hang(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del head, writer
        begun.set()
        with contextlib.suppress(OSError):
            await reader.read()
        ended.set()

    async with serving(hang) as server:
        task = asyncio.create_task(call(client, server.url))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        await asyncio.wait_for(ended.wait(), 30)
