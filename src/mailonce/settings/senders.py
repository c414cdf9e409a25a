"""Settings of senders, of streams, and of the ledger of sends."""

from typing import Annotated, Any

from pydantic import Field

from mailonce.core.sends.send_request import SendPriority
from mailonce.core.sends.sender import DEADLINE_S, TIMEOUT_S, WAITS_S, SendMode, Tls
from mailonce.core.sends.settle_rule import SETTLE_S
from mailonce.settings.part import ONE_OR_MORE, YEARS_S, SettingsPart
from mailonce.settings.secrets import refuse_files


class SenderSettings(SettingsPart):
    """One account of a provider, or one SMTP server, that mail goes out by."""

    provider: str = Field(description="the mail service, e.g. smtp or ses; see sends.md")
    secret: str | list[str] = Field(
        default=[], description=f"API key or token, the first is used: {ONE_OR_MORE}"
    )
    username: str = Field(default="", description="where credentials have two halves, as in SMTP")
    password: str = Field(default="", description="the other half")
    host: str = Field(default="", description="of an SMTP server")
    port: int | None = Field(
        default=None, ge=1, le=65_535, description="of an SMTP server; default: the usual one"
    )
    tls: Tls = Field(default=Tls.STARTTLS, description="how SMTP is encrypted")
    region: str = Field(default="", description="where the provider has several")
    domain: str = Field(default="", description="the sending domain, where the provider asks")
    endpoint: str = Field(default="", description="another base URL of the provider's API")
    options: dict[str, Any] = Field(default={}, description="options of this provider")
    waits_s: list[Annotated[float, Field(ge=0, le=86_400)]] = Field(
        default=list(WAITS_S), max_length=50, description="seconds between calls not accepted"
    )
    deadline_s: int = Field(
        default=DEADLINE_S,
        ge=1,
        le=YEARS_S,
        description="when a mail that was not sent is given up, counted from its request",
    )
    timeout_s: float = Field(
        default=TIMEOUT_S, gt=0, le=900, description="how long a call may take"
    )
    concurrency: int = Field(default=16, ge=1, le=1_000, description="calls at once")
    rate_per_s: float | None = Field(
        default=None, gt=0, le=100_000, description="calls a second; default: no limit"
    )
    mode: SendMode = Field(
        default=SendMode.AT_MOST_ONCE,
        description="what happens to a mail whose outcome stays unknown",
    )
    next_sender: str | None = Field(
        default=None, description="the sender that takes what this one did certainly not send"
    )

    _are_no_files = refuse_files("SENDERS", "secret", "password")


class StreamSettings(SettingsPart):
    """A class of mail."""

    priority: SendPriority | None = Field(
        default=None, description="which mail goes first; default: by the number of recipients"
    )
    unsubscribe: bool = Field(
        default=False, description="each mail has a link to unsubscribe with one click"
    )
    sender: str | None = Field(default=None, description="by which sender; default: the first")


class SendSettings(SettingsPart):
    """The ledger of sends."""

    ledger_days: int = Field(
        default=400, ge=1, description="how long a send, and its key, are remembered"
    )
    body_days: int = Field(
        default=35, ge=1, description="how long the words of a mail are kept once it is settled"
    )
    settle_s: int = Field(
        default=SETTLE_S,
        ge=1,
        le=YEARS_S,
        description="how long events are waited for before a person is asked",
    )
    mail_bytes_max: int = Field(
        default=10 << 20, ge=1024, description="text, HTML and attachments of one mail"
    )
    request_bytes_max: int = Field(default=16 << 20, ge=1024, description="body of POST /v1/sends")
    render_s: float = Field(
        default=2.0, gt=0, le=60, description="how long the templates of one request may take"
    )
