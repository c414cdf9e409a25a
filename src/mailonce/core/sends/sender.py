"""A sender: one configured way out, with its credentials."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from mailonce.core.fields import setting_fields

# A first try at once; then these waits, a quarter of an hour in all.
WAITS_S = (5.0, 30.0, 120.0, 300.0, 450.0)
DEADLINE_S = 3_600
# Each time-out makes an outcome unknown, so it is long.
TIMEOUT_S = 60.0
# Nothing is sent meanwhile, so to give up soon costs nothing but another try.
CONNECT_TIMEOUT_S = 10.0
# For the body of a mail over SMTP, and for the reply to its final dot: RFC 5321, 4.5.3.2.
SMTP_BODY_S = 300.0
DOT_TIMEOUT_S = 600.0

_NOTHING: Mapping[str, Any] = {}


class Tls(StrEnum):
    """How a connection to an SMTP server is encrypted."""

    # Begun in plain text; it must be offered, and is never given up.
    STARTTLS = "starttls"
    # From the first byte.
    IMPLICIT = "implicit"
    NONE = "none"


class SendMode(StrEnum):
    """What happens to a send whose outcome stays unknown."""

    # It waits for a person.
    AT_MOST_ONCE = "at_most_once"
    # It is sent again, and marked.
    AT_LEAST_ONCE = "at_least_once"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """One account of a provider, or one SMTP server.

    Which of the fields a provider needs, and which options it knows, is said by its `Sending`.
    """

    id: str
    workspace: str
    name: str
    provider: str
    # API keys or tokens: the first is used, further ones wait for a rotation.
    secrets: tuple[str, ...] = field(default=(), repr=False)
    # Where credentials have two halves (SMTP, an AWS access key, a Mailjet key).
    username: str = ""
    password: str = field(default="", repr=False)
    host: str = ""
    # None: the usual one.
    port: int | None = None
    tls: Tls = Tls.STARTTLS
    # Where the provider has several: its region, the sending domain, another base URL.
    region: str = ""
    domain: str = ""
    endpoint: str = ""
    options: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    waits_s: tuple[float, ...] = WAITS_S
    deadline_s: int = DEADLINE_S
    timeout_s: float = TIMEOUT_S
    concurrency: int = 16
    # Calls a second; None: as many as the concurrency allows.
    rate_per_s: float | None = None
    mode: SendMode = SendMode.AT_MOST_ONCE
    # The name of the sender that takes over what this one is known not to have sent.
    next_sender: str | None = None
    # Why it was switched off; None while it is on.
    off: str | None = None
    # No master key of this process opens its credentials: others send for it.
    is_unreadable: bool = False

    @property
    def dot_timeout_s(self) -> float:
        """How long the reply to the final dot of SMTP may take."""
        given = self.options.get("dot_timeout_s")
        return float(given) if isinstance(given, int | float) else DOT_TIMEOUT_S

    @property
    def call_s_max(self) -> float:
        """The longest that one call can take: so long its lease is renewed."""
        if self.provider != "smtp":
            return CONNECT_TIMEOUT_S + self.timeout_s
        # A session that was kept may be dead, and the time for a new one begins anew.
        return 3 * self.timeout_s + 2 * SMTP_BODY_S + self.dot_timeout_s


# All but who it is, and its state.
SETTINGS = setting_fields(
    Sender, but=("id", "workspace", "name", "provider", "off", "is_unreadable")
)
