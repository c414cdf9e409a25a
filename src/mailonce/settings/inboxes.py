"""Settings of inboxes: their domains, how long they live and how much they hold."""

from pydantic import Field, field_validator

from mailonce.core.inboxes.inbox import BYTES_MAX, MAILS_MAX, TTL_S, TTL_S_MAX
from mailonce.core.mail.address import read_domain
from mailonce.settings.part import SettingsPart


class InboxSettings(SettingsPart):
    """Inboxes, and the mail in them."""

    domains: list[str] = Field(
        default=[],
        max_length=1000,
        description="mail domains of the default workspace, the first of them for new inboxes; "
        "none: `inbox.localhost`",
    )
    ttl_s: int = Field(
        default=TTL_S, ge=1, le=TTL_S_MAX, description="life of an inbox that asks for no other"
    )
    ttl_s_max: int = Field(
        default=30 * 86_400, ge=1, le=TTL_S_MAX, description="longest life that may be asked for"
    )
    permanent: bool = Field(
        default=False, description='whether an inbox may ask to have no end (`"ttl_s": null`)'
    )
    mails_max: int = Field(
        default=MAILS_MAX, ge=1, le=1_000_000, description="mails in an inbox that asks for fewer"
    )
    bytes_max: int = Field(
        default=BYTES_MAX, ge=1024, le=1 << 40, description="bytes of mail in an inbox, likewise"
    )
    inboxes_max: int = Field(
        default=100_000, ge=1, description="inboxes of one workspace at the same time"
    )
    grace_s: int = Field(
        default=300, ge=0, le=30 * 86_400, description="how long a rotated address takes mail"
    )
    unmatched_mails_max: int = Field(
        default=1_000, ge=0, description="mails of one workspace that no inbox takes; oldest go"
    )
    unmatched_days: int = Field(
        default=7, ge=0, le=400, description="how long mail that no inbox takes is kept"
    )
    trusted_servers: list[str] = Field(
        default=[],
        max_length=100,
        description="names (authserv-id) of mail servers in front of this one whose "
        "`Authentication-Results` are believed; they must remove such fields from what they take",
    )
    check_senders: bool = Field(
        default=False,
        description="check SPF, DKIM and DMARC of mail that neither its provider nor a trusted "
        "server has checked; asks the DNS while mail is read",
    )
    streams_max: int = Field(
        default=200, ge=1, description="open streams of one workspace in this process"
    )

    @field_validator("domains")
    @classmethod
    def _in_one_spelling(cls, value: list[str]) -> list[str]:
        domains = [read_domain(one) for one in value]
        for given, read in zip(value, domains, strict=True):
            if read is None:
                raise ValueError(f"{given[:80]!r} is no mail domain; write it as in.example.com")
        return [one for one in dict.fromkeys(domains) if one is not None]
