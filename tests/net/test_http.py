"""The guarded client against a real TLS server: what goes through, and what does not."""

import asyncio
import socket
import ssl

import pytest

from mailonce.errors import RefusedError, SizeError, UnavailableError
from mailonce.net import address_guard
from mailonce.net.dialer import DialedConnection, Dialer
from mailonce.net.http import GuardedClient
from tests.net.conftest import HOST, Authority, Peer


class Names:
    """A name server of ours: gives these addresses for any name."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses
        self.asked: list[str] = []

    async def resolve(self, host: str) -> tuple[str, ...]:
        self.asked.append(host)
        return self.addresses

    def close(self) -> None:
        return None


def mapped(authority: Authority, peer: Peer) -> GuardedClient:
    return GuardedClient(hosts={HOST: peer.address}, ca_file=authority.ca_file)


async def test_a_mapped_host_is_called_there_under_its_own_name(
    authority: Authority, peer: Peer
) -> None:
    async with mapped(authority, peer) as client:
        answer = await client.get(f"https://{HOST}/a?b=%2F", bytes_max=100, timeout_s=5)

    assert (answer.status, answer.body, answer.headers["x-seen"]) == (200, b"fine", "yes")
    assert peer.seen == [("GET", "/a?b=%2F", b"")]
    assert peer.hosts == [HOST]


async def test_a_mapped_host_must_still_prove_its_name(authority: Authority, peer: Peer) -> None:
    hosts = {"other.example.com": peer.address}

    async with GuardedClient(hosts=hosts, ca_file=authority.ca_file) as client:
        with pytest.raises(UnavailableError, match="certificate is not valid"):
            await client.get("https://other.example.com/", bytes_max=100, timeout_s=5)

    assert peer.seen == []


async def test_without_the_authority_nothing_is_said(peer: Peer) -> None:
    async with GuardedClient(hosts={HOST: peer.address}) as client:
        with pytest.raises(UnavailableError):
            await client.get(f"https://{HOST}/", bytes_max=100, timeout_s=5)

    assert peer.seen == []


async def test_a_map_lets_in_nothing_beside_its_host(authority: Authority, peer: Peer) -> None:
    async with mapped(authority, peer) as client:
        for url in (f"https://{peer.address}/", f"https://localhost:{peer.port}/"):
            with pytest.raises(RefusedError):
                await client.get(url, bytes_max=100, timeout_s=5)

    assert peer.seen == []


async def test_a_body_and_its_headers_are_posted_as_they_are(
    authority: Authority, peer: Peer
) -> None:
    async with mapped(authority, peer) as client:
        answer = await client.post(
            f"https://{HOST}/hook", b'{"a": 1}', {"webhook-id": "1"}, bytes_max=2, timeout_s=5
        )

    assert peer.seen == [("POST", "/hook", b'{"a": 1}')]
    assert (answer.status, answer.body) == (200, b"fi")


async def test_a_redirect_is_an_answer_and_is_not_followed(
    authority: Authority, peer: Peer
) -> None:
    async with mapped(authority, peer) as client:
        got = await client.get(f"https://{HOST}/redirect", bytes_max=100, timeout_s=5)
        posted = await client.post(f"https://{HOST}/redirect", b"", bytes_max=100, timeout_s=5)

    assert (got.status, posted.status) == (302, 302)
    assert [path for _, path, _ in peer.seen] == ["/redirect", "/redirect"]


async def test_a_fetched_body_above_the_limit_is_refused(authority: Authority, peer: Peer) -> None:
    async with mapped(authority, peer) as client:
        with pytest.raises(SizeError):
            await client.get(f"https://{HOST}/large", bytes_max=65_535, timeout_s=5)
        whole = await client.get(f"https://{HOST}/large", bytes_max=65_536, timeout_s=5)

    assert len(whole.body) == 65_536


async def test_of_a_long_answer_to_a_post_the_beginning_is_kept(
    authority: Authority, peer: Peer
) -> None:
    async with mapped(authority, peer) as client:
        answer = await client.post(f"https://{HOST}/large", b"x", bytes_max=10, timeout_s=5)

    assert (answer.status, answer.body) == (200, b"x" * 10)


async def test_a_compressed_answer_is_not_unpacked(authority: Authority, peer: Peer) -> None:
    async with mapped(authority, peer) as client:
        answer = await client.get(f"https://{HOST}/bomb", bytes_max=100, timeout_s=5)

    assert answer.body == b"compressed"


@pytest.mark.parametrize(
    "addresses", [("127.0.0.1",), ("8.8.8.8", "10.0.0.1"), ("169.254.169.254",)]
)
async def test_a_name_with_an_address_out_of_bounds_is_refused(
    authority: Authority, peer: Peer, addresses: tuple[str, ...]
) -> None:
    names = Names(*addresses)

    async with GuardedClient(ca_file=authority.ca_file, resolver=names) as client:
        with pytest.raises(RefusedError, match="not a public address"):
            await client.get(f"https://rebind.example.com:{peer.port}/", bytes_max=9, timeout_s=5)

    assert names.asked == ["rebind.example.com"]
    assert peer.seen == []


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "2130706433", "0x7f.1", "0177.1", "[::ffff:127.0.0.1]", "localhost"]
)
async def test_a_private_literal_is_refused_in_any_spelling(
    authority: Authority, peer: Peer, host: str
) -> None:
    async with GuardedClient(ca_file=authority.ca_file) as client:
        with pytest.raises(RefusedError):
            await client.get(f"https://{host}:{peer.port}/", bytes_max=9, timeout_s=5)
        with pytest.raises(RefusedError):
            await client.post(f"https://{host}:{peer.port}/", b"", bytes_max=9, timeout_s=5)

    assert peer.seen == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0x7f.1"])
async def test_an_allowed_host_is_called_wherever_it_is(
    authority: Authority, peer: Peer, host: str
) -> None:
    allowed = ["localhost", f"127.0.0.1:{peer.port}"]

    async with GuardedClient(allow_hosts=allowed, ca_file=authority.ca_file) as client:
        answer = await client.get(f"https://{host}:{peer.port}/", bytes_max=9, timeout_s=5)

    assert answer.status == 200


async def test_no_socket_is_made_for_an_address_out_of_bounds(
    authority: Authority, peer: Peer
) -> None:
    """On its own: a name that changed its address after the check would get as far as here."""
    target = address_guard.Target("", "https", HOST, peer.port, allowed=False)

    dialer = Dialer(allow_hosts=(), hosts={}, ca_file=authority.ca_file, resolver=None)
    with pytest.raises(RefusedError, match="loopback"):
        await dialer._connect(target, "127.0.0.1", peer.port, DialedConnection, dialer.tls())

    assert peer.seen == []


async def test_the_peer_of_the_connection_has_the_last_word(
    authority: Authority, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On its own: whatever came between the address and the socket, no byte leaves."""
    target = address_guard.Target("", "https", HOST, peer.port, allowed=False)
    real = asyncio.get_running_loop().create_connection

    async def elsewhere(factory: object, _: str, port: int, **named: object) -> object:
        return await real(factory, "127.0.0.1", port, **named)  # type: ignore[call-overload]

    dialer = Dialer(allow_hosts=(), hosts={}, ca_file=authority.ca_file, resolver=None)
    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", elsewhere)
    with pytest.raises(RefusedError, match="loopback"):
        await dialer._connect(target, "8.8.8.8", peer.port, DialedConnection, dialer.tls())

    assert peer.seen == []


async def test_tls_names_the_host_and_offers_http_1_1(authority: Authority) -> None:
    seen: list[object] = []

    def note(_: ssl.SSLObject, name: str, __: ssl.SSLContext) -> None:
        seen.append(name)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(writer.get_extra_info("ssl_object").selected_alpn_protocol())
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    tls = authority.new_context()
    tls.set_alpn_protocols(["h2", "http/1.1"])
    tls.sni_callback = note
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with GuardedClient(hosts={HOST: address}, ca_file=authority.ca_file) as client:
        answer = await client.get(f"https://{HOST}/", bytes_max=9, timeout_s=5)
    server.close()

    assert (answer.status, seen) == (200, [HOST, "http/1.1"])


@pytest.mark.parametrize(
    "headers",
    [{"transfer-encoding": "chunked"}, {"Connection": "close"}, {"": "x"}, {"a b": "x"},
     {"a": "\0"}],
)  # fmt: skip
async def test_headers_that_would_change_the_framing_are_refused(
    authority: Authority, peer: Peer, headers: dict[str, str]
) -> None:
    async with mapped(authority, peer) as client:
        with pytest.raises(RefusedError):
            await client.post(f"https://{HOST}/", b"", headers, bytes_max=9, timeout_s=5)

    assert peer.seen == []


async def test_environment_proxies_are_not_used(
    authority: Authority, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")

    async with mapped(authority, peer) as client:
        answer = await client.get(f"https://{HOST}/", bytes_max=9, timeout_s=5)

    assert answer.status == 200


async def test_silence_is_unavailable_after_the_timeout(authority: Authority, peer: Peer) -> None:
    peer.gate.clear()

    async with mapped(authority, peer) as client:
        with pytest.raises(UnavailableError, match=r"did not answer in 0\.2 s"):
            await client.get(f"https://{HOST}/", bytes_max=9, timeout_s=0.2)


async def test_a_closed_port_is_unavailable(authority: Authority) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"

    async with GuardedClient(hosts={HOST: address}, ca_file=authority.ca_file) as client:
        with pytest.raises(UnavailableError):
            await client.get(f"https://{HOST}/", bytes_max=9, timeout_s=5)


async def test_an_answer_that_breaks_off_is_unavailable(authority: Authority, peer: Peer) -> None:
    async with mapped(authority, peer) as client:
        with pytest.raises(UnavailableError):
            await client.get(f"https://{HOST}/cut", bytes_max=1_000, timeout_s=5)


async def test_a_header_cannot_smuggle_another(authority: Authority, peer: Peer) -> None:
    async with mapped(authority, peer) as client:
        with pytest.raises(RefusedError):
            await client.post(f"https://{HOST}/", b"", {"a": "b\r\nc: d"}, bytes_max=9, timeout_s=5)

    assert peer.seen == []
