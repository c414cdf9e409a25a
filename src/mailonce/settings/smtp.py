"""Settings of the SMTP door: where it listens, TLS, users, and its limits."""

import re
from pathlib import Path
from typing import Self

from pydantic import Field, field_validator, model_validator

from mailonce.core.empty_secret import is_empty
from mailonce.core.one_line import is_one_line
from mailonce.settings.part import SettingsPart
from mailonce.settings.secrets import refuse_file

PORT = 2525


class SmtpSettings(SettingsPart):
    """The SMTP door."""

    host: str = Field(default="", description="address to listen on; default: that of HTTP")
    port: int = Field(
        default=PORT, ge=0, le=65535, description="port to listen on; also --smtp-port"
    )
    tls_port: int | None = Field(
        default=None, ge=0, le=65535, description="port on which connections begin with TLS"
    )
    hostname: str = Field(
        default="", description="name in the greeting, as the MX record has it; default: the host's"
    )
    certificate: Path | None = Field(
        default=None, description="chain in PEM format, for STARTTLS and tls_port; read on change"
    )
    certificate_key: Path | None = Field(
        default=None, description="its key, without a password; default: in the same file"
    )
    require_tls: bool = Field(default=False, description="take mail under TLS alone")
    users: dict[str, str] = Field(
        default={}, description="name = password, for AUTH PLAIN and LOGIN under TLS"
    )
    require_auth: bool = Field(default=False, description="take mail from users alone")
    proxy_peers: list[str] = Field(
        default=[], description="proxies that send a PROXY header (version 1 or 2), and must"
    )
    unlimited: list[str] = Field(
        default=["127.0.0.0/8", "::1"],
        description="addresses and networks without the limits of an address",
    )
    connections_max: int = Field(
        default=1000,
        ge=1,
        description="open at once; fewer where the file limit is lower; idle ones make room",
    )
    address_connections_max: int = Field(
        default=50, ge=1, description="open at once from one address, or /64 network"
    )
    address_connects_per_minute_max: int = Field(
        default=300, ge=1, description="new connections of one address"
    )
    address_mails_per_minute_max: int = Field(default=600, ge=1, description="mails of one address")
    address_wrong_logins_per_minute_max: int = Field(
        default=20, ge=1, description="wrong logins of one address"
    )
    message_bytes_max: int = Field(
        default=25 << 20, ge=1024, description="size of a mail, as SIZE says it"
    )
    held_bytes_max: int = Field(
        default=128 << 20,
        ge=1 << 20,
        description="half sent or not yet stored, over all connections",
    )
    recipients_max: int = Field(default=100, ge=1, description="recipients of a mail")
    command_bytes_max: int = Field(
        default=2048, ge=512, le=64 << 10, description="length of a command line"
    )
    data_line_bytes_max: int = Field(
        default=64 << 10, ge=1000, description="length of a line of a mail"
    )
    commands_max: int = Field(default=10_000, ge=10, description="commands of a session")
    errors_max: int = Field(
        default=100, ge=1, description="refused commands of a session since its last mail"
    )
    handshake_timeout_s: float = Field(
        default=20.0, gt=0, description="for a TLS handshake, and for a PROXY header"
    )
    command_timeout_s: float = Field(default=300.0, gt=0, description="for the next command")
    data_timeout_s: float = Field(default=120.0, gt=0, description="for a mail that has stalled")
    data_bytes_per_s_min: int = Field(
        default=2_000, ge=1, description="pace of a mail, once it took longer than its timeout"
    )
    store_timeout_s: float = Field(
        default=60.0, gt=0, description="for storing; then the sender is asked to try again"
    )
    answer_timeout_s: float = Field(
        default=60.0, gt=0, description="for a client that reads nothing of its replies"
    )
    session_timeout_s: float = Field(
        default=3600.0, gt=0, description="for a session, and for one mail"
    )
    drain_s: float = Field(
        default=15.0, ge=0, description="how long mails under way may take when stopping"
    )

    @field_validator("hostname")
    @classmethod
    def _plain_name(cls, value: str) -> str:
        if value and not re.fullmatch(r"[A-Za-z0-9.:\[\]_-]{1,255}", value):
            raise ValueError("use a host's name, such as mx.example.com")
        return value

    @field_validator("users")
    @classmethod
    def _have_passwords(cls, value: dict[str, str]) -> dict[str, str]:
        for name, password in value.items():
            if is_empty(password):
                raise ValueError(f"the password of {name[:80]!r} is empty; write one")
            if not is_one_line(password):
                raise ValueError(f"the password of {name[:80]!r} has a line break; take it out")
            refuse_file(password, "MAILONCE_SMTP__USERS__NAME")
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.certificate is None and (self.tls_port is not None or self.require_tls):
            raise ValueError("`tls_port` and `require_tls` need a `certificate`")
        if self.certificate is None and (self.users or self.require_auth):
            raise ValueError("users log in under TLS alone; set a `certificate`")
        if self.require_auth and not self.users:
            raise ValueError("`require_auth` needs `users`")
        if self.held_bytes_max < self.message_bytes_max:
            raise ValueError("`held_bytes_max` must be at least `message_bytes_max`")
        return self
