"""Settings of expectations: leases, resends, and the hosts that agents may name."""

from pydantic import Field, field_validator

from mailonce.core.expectations.consumption import LEASE_S
from mailonce.core.expectations.link_host import link_host_text, read_link_host
from mailonce.core.expectations.resend import WAIT_S
from mailonce.settings.part import SettingsPart


class ExpectationSettings(SettingsPart):
    """Expectations of inboxes, and how their artifacts are consumed."""

    link_hosts: list[str] = Field(
        default=[],
        max_length=1000,
        description="hosts, with the start of a path, whose links an agent's key may expect; "
        "operators name theirs with each expectation",
    )
    lease_s: float = Field(
        default=LEASE_S,
        ge=0.1,
        le=86_400,
        description="how long a consumed artifact may go without a confirmation",
    )
    resend_wait_s: float = Field(
        default=WAIT_S, ge=0, le=3600, description="how long to wait before a resend is granted"
    )
    open_max: int = Field(
        default=100, ge=1, le=10_000, description="open expectations of one inbox"
    )

    @field_validator("link_hosts")
    @classmethod
    def _in_one_spelling(cls, value: list[str]) -> list[str]:
        return [link_host_text(read_link_host(one)) for one in value]
