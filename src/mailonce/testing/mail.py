"""A mail that a simulated provider received, and how such a provider posts it."""

import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default as policy
from email.utils import getaddresses, parsedate_to_datetime
from functools import cached_property
from hashlib import sha256
from typing import Any

from mailonce.core.events.event import EventType
from mailonce.testing.simulator import Draft, Happening, Post, Simulator

# When a mail without a date was written.
_UNDATED = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class MailFile:
    """An attachment."""

    name: str
    type: str
    content: bytes
    content_id: str | None
    is_inline: bool


@dataclass(frozen=True)
class SimulatedMail:
    """A mail with its envelope; its fields are read from it as a provider would."""

    raw: bytes
    sender: str
    recipients: tuple[str, ...]

    @cached_property
    def id(self) -> str:
        """What the provider knows the mail by, the same on each attempt."""
        envelope = "\0".join([self.sender, *self.recipients]).encode()
        return sha256(envelope + b"\0" + self.raw).hexdigest()[:32]

    @cached_property
    def message(self) -> EmailMessage:
        return message_from_bytes(self.raw, policy=policy)

    @property
    def received_s(self) -> int:
        """When the provider received it, the same on each attempt: as soon as it was written."""
        at = parsedate_to_datetime(self.header("Date")) if self.header("Date") else _UNDATED
        return int(at.timestamp())

    @property
    def headers(self) -> list[tuple[str, str]]:
        """The headers, decoded, in their order."""
        return [(name, str(value)) for name, value in self.message.items()]

    def header(self, name: str) -> str:
        return str(self.message.get(name, ""))

    def people(self, name: str) -> list[tuple[str, str]]:
        """Give name and address of each mailbox of a header."""
        return getaddresses([self.header(name)])

    @property
    def text(self) -> str | None:
        return self._body("plain")

    @property
    def html(self) -> str | None:
        return self._body("html")

    @property
    def files(self) -> list[MailFile]:
        return [
            MailFile(
                name=part.get_filename() or "",
                type=part.get_content_type(),
                content=part.get_payload(decode=True) or b"",  # type: ignore[arg-type]
                content_id=(part.get("Content-ID") or "").strip("<>") or None,
                is_inline=part.get_content_disposition() == "inline",
            )
            for part in self.message.walk()
            if not part.is_multipart() and part.get_content_disposition() is not None
        ]

    def for_one(self, recipient: str) -> "SimulatedMail":
        return SimulatedMail(self.raw, self.sender, (recipient,))

    @property
    def happening(self) -> Happening:
        """The mail as an event, for what is signed beside the body."""
        return Happening(
            self.id, EventType.INBOUND, self.header("Message-ID"), self.recipients[0], 0
        )

    def _body(self, kind: str) -> str | None:
        part = self.message.get_body(preferencelist=(kind,))
        return None if part is None else str(part.get_content())


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedHook:
    """How a provider posts mail: in which modes, and what a source needs beside its own settings.

    `write(simulator, mail, mode, now_s)` makes the posts. Called again it makes a retry that was
    written anew: what names the mail is the same, boundaries, tokens and times are not.
    """

    modes: tuple[str, ...]
    write: Callable[[Simulator, SimulatedMail, str, int], list[Post]]
    settings: Callable[[Simulator], Mapping[str, Any]] = lambda _: {}


def signed_post(simulator: Simulator, mail: SimulatedMail, body: bytes, now_s: int) -> Post:
    """Post a JSON body with the proof that the simulator gives its events."""
    proof = simulator.proof(Draft([mail.happening], body, now_s))
    return Post({"Content-Type": simulator.content_type, **proof}, body)


@dataclass(slots=True)
class MultipartForm:
    """A form in parts, under a boundary that nobody could guess."""

    parts: list[bytes] = field(default_factory=list)
    boundary: str = field(default_factory=lambda: f"xYzZY{secrets.token_hex(12)}")

    def add(
        self, name: str, content: str | bytes, *, file: str | None = None, type_: str = ""
    ) -> None:
        """Add a field, or a file where it has a name."""
        disposition = f'form-data; name="{name}"'
        if file is not None:
            disposition += f'; filename="{file}"'
        head = f"Content-Disposition: {disposition}\r\n"
        head += f"Content-Type: {type_}\r\n" if type_ else ""
        raw = content.encode() if isinstance(content, str) else content
        self.parts.append(head.encode() + b"\r\n" + raw)

    def add_all(self, fields: Iterable[tuple[str, str | bytes]]) -> None:
        for name, content in fields:
            self.add(name, content)

    @property
    def content_type(self) -> str:
        return f"multipart/form-data; boundary={self.boundary}"

    @property
    def body(self) -> bytes:
        line = f"--{self.boundary}".encode()
        pieces = [line + b"\r\n" + part + b"\r\n" for part in self.parts]
        return b"".join(pieces) + line + b"--\r\n"
