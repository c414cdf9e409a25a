"""Settings of a source."""

from typing import Any

from pydantic import Field

from mailonce.core.arrivals.source import Poison
from mailonce.settings.part import ONE_OR_MORE, YEARS_S, SettingsPart
from mailonce.settings.secrets import refuse_files


class SourceSettings(SettingsPart):
    """One configured account of a provider."""

    provider: str = Field(description="the mail service, e.g. sendgrid; see GET /v1/providers")
    account: str | None = Field(
        default=None, description="scope of keys; sources that share it collapse copies"
    )
    secret: str | list[str] = Field(default=[], description=f"HMAC secret: {ONE_OR_MORE}")
    public_key: str | list[str] = Field(
        default=[], description=f"public key or certificate: {ONE_OR_MORE}"
    )
    basic: str | list[str] = Field(default=[], description=f"user:password: {ONE_OR_MORE}")
    token: str | list[str] = Field(
        default=[], description=f"secret at the end of the URL, or bearer token: {ONE_OR_MORE}"
    )
    header: str | list[str] = Field(
        default=[], description=f"'Name: value' that must be present: {ONE_OR_MORE}"
    )
    allow_ips: list[str] = Field(default=[], description="addresses or networks of the sender")
    topic_arns: list[str] = Field(default=[], description="allowed SNS topics (SES)")
    api_key: str | list[str] = Field(
        default=[],
        description="fetches mail that a hook only announces, see inbound.md; the first is used",
    )
    unproven: bool = Field(default=False, description="accept arrivals without any proof")
    unsigned: bool = Field(
        default=False,
        description="the provider does not sign here; `basic`, `token`, `header` or `allow_ips` do",
    )
    poison: Poison = Field(
        default=Poison.DEAD_LETTER, description="what becomes of verified, unreadable arrivals"
    )
    poison_attempts: int = Field(
        default=5, ge=1, le=100, description="tries before a dead letter, with poison = retry"
    )
    freshness_s: int | None = Field(
        default=None, ge=0, le=YEARS_S, description="how old a signed timestamp may be; 0: any age"
    )
    silence_s: int | None = Field(
        default=None,
        ge=0,
        le=YEARS_S,
        description="silence that raises an alarm; default: learned; 0: never",
    )
    options: dict[str, Any] = Field(default={}, description="options of this provider")

    _are_no_files = refuse_files(
        "SOURCES", "secret", "public_key", "basic", "token", "header", "api_key"
    )
