"""Clients behind a proxy: whom the door believes, and about whom."""

import asyncio
import ssl
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.edge.smtp.proxy_header import ProxyHeader, read_proxy_header
from mailonce.errors import ParseError
from tests.edge.smtp.rig import Rig, Talk, open_door, until, write_certificate
from tests.edge.smtp.test_tls import trusting

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
V1 = b"PROXY TCP4 192.0.2.7 198.51.100.1 50000 25\r\n"
V1_6 = b"PROXY TCP6 2001:db8::7 2001:db8::1 50000 25\r\n"
V2 = SIGNATURE + b"\x21\x11\0\x0c" + bytes([192, 0, 2, 7, 198, 51, 100, 1, 0xC3, 0x50, 0, 25])
V2_6 = (
    SIGNATURE + b"\x21\x21\0\x27" + bytes.fromhex("20010db8" + "00" * 11 + "07")
    + bytes(16) + b"\xc3\x50\0\x19" + b"\x04\0\0"
)  # fmt: skip
LOCAL = SIGNATURE + b"\x20\0\0\0"
PEERS = ["127.0.0.1"]


@pytest.mark.parametrize(
    ("header", "address"),
    [
        (V1, "192.0.2.7"),
        (V1_6, "2001:db8::7"),
        (V2, "192.0.2.7"),
        (V2_6, "2001:db8::7"),
        (LOCAL, None),
        (b"PROXY UNKNOWN\r\n", None),
        (b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", None),
    ],
)
def test_a_header_is_read_from_any_pieces(header: bytes, address: str | None) -> None:
    for size in range(len(header)):
        assert read_proxy_header(header[:size]) is None

    assert read_proxy_header(header + b"EHLO x\r\n") == ProxyHeader(len(header), address)


@pytest.mark.parametrize(
    "header",
    [
        b"EHLO me\r\n",
        b"PROXY TCP4 192.0.2.7 198.51.100.1 50000\r\n",
        b"PROXY TCP4 2001:db8::7 2001:db8::1 1 2\r\n",
        b"PROXY TCP6 192.0.2.7 198.51.100.1 1 2\r\n",
        b"PROXY TCP4 localhost localhost 1 2\r\n",
        b"PROXY TCP4 192.0.2.7 198.51.100.1 1 2\n",
        b"PROXY TCP5 192.0.2.7 198.51.100.1 1 2\r\n",
        b"PROXY " + b"x" * 200,
        b"proxy TCP4 192.0.2.7 198.51.100.1 1 2\r\n",
        SIGNATURE + b"\x31\x11\0\x0c" + bytes(12),
        SIGNATURE + b"\x22\x11\0\x0c" + bytes(12),
        SIGNATURE + b"\x21\x31\0\x0c" + bytes(12),
        SIGNATURE + b"\x21\x11\0\x04" + bytes(4),
        SIGNATURE + b"\x21\x11\xff\xff",
    ],
)
def test_what_is_no_header_is_refused(header: bytes) -> None:
    with pytest.raises(ParseError):
        read_proxy_header(header)


@given(data=st.binary(max_size=200), start=st.sampled_from([b"", b"PROXY ", SIGNATURE]))
def test_no_bytes_make_the_reader_fail_otherwise(data: bytes, start: bytes) -> None:
    try:
        header = read_proxy_header(start + data)
    except ParseError:
        return
    assert header is None or 0 < header.bytes <= len(start + data)


async def ip_of_a_mail(rig: Rig, header: bytes) -> str | None:
    talk = await rig.connect(greets=False)
    talk.send(header)
    assert (await talk.reply()).startswith(b"220 ")
    for line in (b"EHLO me", b"MAIL FROM:<>", b"RCPT TO:<box@in.test>", b"DATA"):
        assert (await talk.ask(line))[:1] in b"23"
    talk.send(b"x\r\n.\r\n")
    assert (await talk.reply()).startswith(b"250 ")
    return rig.mail.mails[-1].envelope.client_ip


async def test_a_listed_proxy_says_for_whom_it_connects() -> None:
    async with open_door(proxy_peers=PEERS) as rig:
        assert await ip_of_a_mail(rig, V1) == "192.0.2.7"
        assert await ip_of_a_mail(rig, V2_6) == "2001:db8::7"
        assert await ip_of_a_mail(rig, LOCAL) == "127.0.0.1"


async def test_a_listed_proxy_must_say_so() -> None:
    async with open_door(proxy_peers=PEERS) as rig:
        talk = await rig.connect(greets=False)
        talk.send(b"EHLO me\r\n")

        assert (await talk.rest()).startswith(b"421 4.7.0 ")
        assert rig.refused("proxy_header") == 1


async def test_nobody_else_is_believed() -> None:
    async with open_door(proxy_peers=["192.0.2.0/24"]) as rig:
        talk = await rig.connect()

        assert (await talk.ask(V1[:-2])).startswith(b"500 ")


async def test_clients_behind_a_proxy_are_counted_by_their_own_address() -> None:
    async with open_door(proxy_peers=PEERS, unlimited=[], address_connections_max=1) as rig:
        first = await rig.connect(greets=False)
        first.send(V1)
        assert (await first.reply()).startswith(b"220 ")
        second, other = await rig.connect(greets=False), await rig.connect(greets=False)
        second.send(V2)
        other.send(V1_6)

        assert (await second.rest()).startswith(b"421 4.7.0 ")
        assert (await other.reply()).startswith(b"220 ")
        second.reset()
        await first.ask(b"QUIT")
        await until(lambda: len(rig.door.parts.sessions) == 1, "the first has gone")
        third = await rig.connect(greets=False)
        third.send(V1)
        assert (await third.reply()).startswith(b"220 ")


async def test_a_header_that_never_comes_is_not_waited_for() -> None:
    async with open_door(proxy_peers=PEERS, handshake_timeout_s=20) as rig:
        talk = await rig.connect(greets=False)
        talk.send(b"PROXY TCP4")
        await asyncio.sleep(0)

        rig.door.parts.connections.look(asyncio.get_running_loop().time() + 21)

        assert (await talk.rest()).startswith(b"421 4.4.2 ")


async def test_a_handshake_that_follows_the_header_at_once_is_taken(tmp_path: Path) -> None:
    certificate = write_certificate(tmp_path)
    async with open_door(proxy_peers=PEERS, certificate=certificate, tls_port=0) as rig:
        assert rig.tls_port is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", rig.tls_port)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = trusting().wrap_bio(incoming, outgoing, server_hostname="mx.test")
        with pytest.raises(ssl.SSLWantReadError):
            tls.do_handshake()
        writer.write(V2 + outgoing.read())
        while True:
            incoming.write(await asyncio.wait_for(reader.read(65_536), 30))
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                writer.write(outgoing.read())
        writer.write(outgoing.read())
        while True:
            try:
                assert tls.read(1000).startswith(b"220 ")
                break
            except ssl.SSLWantReadError:
                incoming.write(await asyncio.wait_for(reader.read(65_536), 30))
        writer.close()
        rig.talks.append(Talk(reader, writer))
