"""A real SMTP door on a loopback port, before inboxes that are kept in memory."""

import asyncio
import datetime as dt
import socket
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from prometheus_client import CollectorRegistry

from mailonce.core.inboxes import inbox as rules
from mailonce.core.inboxes.inbox import KnownInbox, NoRoomError, RecipientRefusal
from mailonce.core.mail.incoming import IncomingMail, MimeContent
from mailonce.edge.smtp.door import SmtpDoor
from mailonce.settings.smtp import SmtpSettings
from mailonce.telemetry import SmtpMetrics

BOX = "box@in.test"
WAIT_S = 30


@dataclass
class Inboxes:
    """The other side of `AcceptsMail`: keeps mail in memory, and fails when it is told to."""

    addresses: set[str] = field(default_factory=lambda: {BOX})
    mails: list[IncomingMail] = field(default_factory=list)
    inboxes: list[list[str]] = field(default_factory=list)
    refusals: list[tuple[str | None, RecipientRefusal]] = field(default_factory=list)
    sizes: list[int | None] = field(default_factory=list)
    check_error: Exception | None = None
    accept_error: Exception | None = None
    # Cleared: storing waits.
    may_store: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: int = 0
    # What is answered at once.
    remembered: dict[str, KnownInbox | RecipientRefusal] = field(default_factory=dict)
    takes_at_once: bool = False
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.may_store.set()

    async def check(
        self, address: str, *, size_bytes: int | None = None
    ) -> KnownInbox | RecipientRefusal:
        self.sizes.append(size_bytes)
        await asyncio.sleep(0)
        if self.check_error is not None:
            raise self.check_error
        if address.lower() not in self.addresses:
            return rules.UNKNOWN
        return KnownInbox(f"inb_{address.lower()}", "default", address.lower())

    def recall(
        self, address: str, *, size_bytes: int | None = None
    ) -> KnownInbox | RecipientRefusal | None:
        if address in self.remembered:
            self.sizes.append(size_bytes)
        return self.remembered.get(address)

    def submit(
        self, mail: IncomingMail, inboxes: Sequence[KnownInbox], tell: Callable[[object], None]
    ) -> bool:
        async def store() -> None:
            try:
                tell(await self.accept(mail, inboxes))
            except Exception as error:
                tell(error)

        if self.takes_at_once and isinstance(self.accept_error, NoRoomError):
            raise self.accept_error
        if self.takes_at_once:
            self.tasks.append(asyncio.create_task(store()))
        return self.takes_at_once

    async def accept(self, mail: IncomingMail, inboxes: Sequence[KnownInbox]) -> object:
        self.waiting += 1
        await self.may_store.wait()
        self.waiting -= 1
        if self.accept_error is not None:
            raise self.accept_error
        self.mails.append(mail)
        self.inboxes.append([one.id for one in inboxes])
        return None

    def note_refusal(
        self, address: str | None, refusal: RecipientRefusal, *, peer: str | None
    ) -> None:
        assert peer is not None
        self.refusals.append((address, refusal))

    @property
    def raws(self) -> list[bytes]:
        contents = [mail.content for mail in self.mails]
        return [one.raw for one in contents if isinstance(one, MimeContent)]


@dataclass
class Rig:
    """A door that is open."""

    door: SmtpDoor
    mail: Inboxes
    port: int
    tls_port: int | None
    registry: CollectorRegistry
    talks: "list[Talk]" = field(default_factory=list)

    async def connect(self, *, host: str = "127.0.0.1", greets: bool = True) -> "Talk":
        reader, writer = await asyncio.open_connection(host, self.port)
        talk = Talk(reader, writer)
        self.talks.append(talk)
        if greets:
            assert (await talk.reply()).startswith(b"220 ")
        return talk

    async def session(self) -> "Talk":
        """A session that has said EHLO."""
        talk = await self.connect()
        assert (await talk.ask(b"EHLO client.test")).startswith(b"250-")
        return talk

    async def in_data(self) -> "Talk":
        """A session that may send its mail."""
        talk = await self.session()
        assert (await talk.ask(b"MAIL FROM:<a@b.test>")).startswith(b"250 ")
        assert (await talk.ask(b"RCPT TO:<box@in.test>")).startswith(b"250 ")
        assert (await talk.ask(b"DATA")).startswith(b"354 ")
        return talk

    @property
    def held_bytes(self) -> int:
        return self.door.parts.connections.held_bytes

    def refused(self, reason: str) -> float:
        name = "mailonce_smtp_door_refusals_total"
        return self.registry.get_sample_value(name, {"reason": reason}) or 0.0


@dataclass
class Talk:
    """One client, on a plain socket."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def reply(self) -> bytes:
        """Read one reply, of one or several lines; b"" where the server has hung up."""
        lines = b""
        while True:
            line = await asyncio.wait_for(self.reader.readline(), WAIT_S)
            lines += line
            if not line or line[3:4] != b"-":
                return lines

    async def ask(self, line: bytes) -> bytes:
        self.send(line + b"\r\n")
        return await self.reply()

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def rest(self) -> bytes:
        """Read everything up to the end; a reset is an end, too."""
        try:
            return await asyncio.wait_for(self.reader.read(-1), WAIT_S)
        except ConnectionResetError:
            return b""

    def reset(self) -> None:
        """End the connection as a crash would: nothing more is read or sent."""
        end = struct.pack("ii", 1, 0)
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, end)
        self.writer.transport.abort()


@asynccontextmanager
async def open_door(
    mail: Inboxes | None = None, *, address: str = "127.0.0.1", **settings: Any
) -> AsyncIterator[Rig]:
    """Open a door with these settings; one second is the shortest time that it looks after."""
    registry = CollectorRegistry()
    mail = mail or Inboxes()
    given = SmtpSettings(**{"hostname": "mx.test", "drain_s": 10.0, **settings})
    door = SmtpDoor(given, mail, SmtpMetrics(registry))
    plain = _listen(address)
    tls = _listen(address) if given.tls_port is not None else None
    await door.start([plain], [tls] if tls is not None else [])
    tls_port = None if tls is None else tls.getsockname()[1]
    rig = Rig(door, mail, plain.getsockname()[1], tls_port, registry)
    try:
        yield rig
    finally:
        mail.may_store.set()
        await door.stop()
        for talk in rig.talks:
            talk.writer.transport.abort()


async def until(check: object, what: str) -> None:
    """Wait until `check()` is true."""
    assert callable(check)
    async with asyncio.timeout(WAIT_S):
        while not check():
            await asyncio.sleep(0.01)
    assert check(), what


def write_certificate(
    folder: Path, name: str = "mx.test", *, stem: str = "cert", days: int = 2
) -> Path:
    """Write a self-signed certificate, valid for some days, and its key into one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=9))
        .not_valid_after(now + dt.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / f"{stem}.pem"
    path.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return path


def _listen(address: str) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    listener.bind((address, 0))
    return listener
