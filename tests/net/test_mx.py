"""MX records, asked of a name server of our own."""

import asyncio
from collections.abc import AsyncIterator

import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest

from mailonce.errors import ConfigError, UnavailableError
from mailonce.net import mx
from mailonce.net.mx import MxResolver


class NameServer(asyncio.DatagramProtocol):
    """Knows one domain, and is silent about another."""

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self.transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        query = dns.message.from_wire(data)
        [question] = query.question
        name = question.name.to_text()
        if name == "silent.test.":
            return
        answer = dns.message.make_response(query)
        answer.flags |= dns.flags.RA
        if name == "in.test.":
            records = ("20 later.example.", "10 MX.example.")
            answer.answer.append(dns.rrset.from_text(name, 60, "IN", "MX", *records))
        else:
            answer.set_rcode(dns.rcode.NXDOMAIN)
        self.transport.sendto(answer.to_wire(), addr)


@pytest.fixture
async def resolver() -> AsyncIterator[MxResolver]:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(NameServer, ("127.0.0.1", 0))
    port = transport.get_extra_info("sockname")[1]
    yield MxResolver([f"127.0.0.1:{port}"])
    transport.close()


async def test_the_preferred_machine_comes_first(resolver: MxResolver) -> None:
    assert await resolver.hosts("in.test") == ["mx.example", "later.example"]
    assert await resolver.hosts("nowhere.test") == []


async def test_silence_is_not_taken_for_no_record(
    resolver: MxResolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mx, "TIMEOUT_S", 0.3)

    with pytest.raises(UnavailableError, match="no name server"):
        await resolver.hosts("silent.test")


def test_a_name_server_is_an_address() -> None:
    with pytest.raises(ConfigError, match=r"net\.nameservers"):
        MxResolver(["127.0.0.1:dns"])
