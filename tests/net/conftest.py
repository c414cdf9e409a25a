"""A certificate authority and a real TLS server on loopback."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

HOST = "sns.eu-west-1.amazonaws.com"
MAIL_HOSTS = (
    "api.brevo.com",
    "api.resend.com",
    "inbound-cdn.resend.com",
    "s3.eu-west-1.amazonaws.com",
    "storage-us-east4.api.mailgun.net",
)


@dataclass(frozen=True)
class Authority:
    ca_file: Path
    chain: Path
    server: ssl.SSLContext

    def new_context(self) -> ssl.SSLContext:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(self.chain)
        return made


@dataclass
class Peer:
    """A server; `seen` has each request that reached it."""

    port: int = 0
    seen: list[tuple[str, str, bytes]] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    # Requests wait here until a test lets them go on.
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    key: bytes = b"-----BEGIN CERTIFICATE-----"
    status: int = 200

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    folder = tmp_path_factory.mktemp("ca")
    now = datetime.now(UTC)
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca_id = x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key())

    def certificate(subject: str, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(_name(subject))
            .issuer_name(_name("test CA"))
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
        )

    ca = (
        certificate("test CA", ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(ca_id, critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    names: list[x509.GeneralName] = [
        x509.DNSName(HOST),
        # Scaleway's, for its certificates.
        x509.DNSName("messaging.s3.fr-par.scw.cloud"),
        # Those from which announced mail is fetched.
        *map(x509.DNSName, MAIL_HOSTS),
        x509.DNSName("shop.example"),
        x509.DNSName("localhost"),
        x509.IPAddress(ip_address("127.0.0.1")),
    ]
    leaf = (
        certificate(HOST, key.public_key())
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    ca_file, chain = folder / "ca.pem", folder / "server.pem"
    ca_file.write_bytes(ca.public_bytes(Encoding.PEM))
    chain.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        + leaf.public_bytes(Encoding.PEM)
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(chain)
    return Authority(ca_file, chain, server)


@pytest.fixture
async def peer(authority: Authority) -> AsyncIterator[Peer]:
    peer_ = Peer()
    peer_.gate.set()

    async def answer(request: web.Request) -> web.StreamResponse:
        peer_.seen.append((request.method, request.path_qs, await request.read()))
        peer_.hosts.append(request.headers["Host"])
        await peer_.gate.wait()
        otherwise = _key if request.path.endswith((".pem", ".crt")) else _ok
        return await ANSWERS.get(request.path, otherwise)(request, peer_)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=authority.server)
    await site.start()
    peer_.port = runner.addresses[0][1]
    yield peer_
    peer_.gate.set()
    await runner.cleanup()


async def _ok(request: web.Request, peer: Peer) -> web.StreamResponse:
    del request, peer
    return web.Response(text="fine", headers={"X-Seen": "yes"})


async def _redirect(request: web.Request, peer: Peer) -> web.StreamResponse:
    del request, peer
    return web.Response(status=302, headers={"Location": "/secret", "Set-Cookie": "a=1"})


async def _large(request: web.Request, peer: Peer) -> web.StreamResponse:
    """Without a Content-Length, so that the size must be found out by reading."""
    del peer
    response = web.StreamResponse()
    await response.prepare(request)
    try:
        for _ in range(64):
            await response.write(b"x" * 1024)
    except ConnectionError:
        pass
    return response


async def _bomb(request: web.Request, peer: Peer) -> web.StreamResponse:
    del request, peer
    return web.Response(body=b"compressed", headers={"Content-Encoding": "gzip"})


async def _cut(request: web.Request, peer: Peer) -> web.StreamResponse:
    """Promise more than is said, and hang up."""
    del peer
    response = web.StreamResponse(headers={"Content-Length": "100"})
    await response.prepare(request)
    await response.write(b"only this")
    assert request.transport is not None
    request.transport.close()
    return response


async def _key(request: web.Request, peer: Peer) -> web.StreamResponse:
    del request
    return web.Response(body=peer.key, status=peer.status)


ANSWERS: dict[str, Callable[[web.Request, Peer], Awaitable[web.StreamResponse]]] = {
    "/redirect": _redirect,
    "/large": _large,
    "/bomb": _bomb,
    "/cut": _cut,
    "/key.pem": _key,
}
