"""DMARC: whether what SPF and DKIM proved is about the domain that the reader sees (RFC 7489)."""

import re
from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from mailonce.core.mail.incoming import AuthenticationCheck

RECORD_BYTES_MAX = 4_096

DmarcAction = Literal["none", "quarantine", "reject"]

_VERSION = re.compile(r"\s*v\s*=\s*DMARC1\s*(?:;|$)")
_ACTIONS: dict[str, DmarcAction] = {
    "none": "none", "quarantine": "quarantine", "reject": "reject",
}  # fmt: skip


class DmarcPolicy(Struct, frozen=True, kw_only=True, gc=False):
    """What a domain asks of whoever receives mail in its name."""

    action: DmarcAction = "none"
    # For domains below the one that has the record; None: as above.
    subdomain_action: DmarcAction | None = None
    # Whether the domains must be equal, instead of having the same organization.
    is_dkim_strict: bool = False
    is_spf_strict: bool = False


def read_policy(records: Sequence[bytes]) -> DmarcPolicy | None:
    """Read the policy of a domain from its TXT records; None where there is none, or several."""
    texts = [record[:RECORD_BYTES_MAX].decode("ascii", "replace") for record in records]
    ours = [text for text in texts if _VERSION.match(text)]
    if len(ours) != 1:
        return None
    pairs = (pair.partition("=") for pair in ours[0].split(";"))
    tags = {name.strip().lower(): value.strip().lower() for name, _, value in pairs}
    return DmarcPolicy(
        action=_ACTIONS.get(tags.get("p", ""), "none"),
        subdomain_action=_ACTIONS.get(tags.get("sp", "")),
        is_dkim_strict=tags.get("adkim") == "s",
        is_spf_strict=tags.get("aspf") == "s",
    )


def judge_dmarc(
    domain: str,
    policy: DmarcPolicy,
    *,
    spf: AuthenticationCheck | None,
    dkim: Sequence[AuthenticationCheck],
    organization_of: Callable[[str], str],
    is_inherited: bool = False,
) -> AuthenticationCheck:
    """Say whether a check that passed speaks for the domain of the sender whom the reader sees.

    `is_inherited`: the policy is that of the organization, not of the domain itself.
    """

    def is_aligned(check: AuthenticationCheck, *, is_strict: bool) -> bool:
        other = (check.domain or "").lower()
        if check.result != "pass" or not other:
            return False
        if is_strict or other == domain:
            return other == domain
        return bool(organization_of(other)) and organization_of(other) == organization_of(domain)

    checks = [*dkim, *([spf] if spf is not None else [])]
    if any(is_aligned(one, is_strict=policy.is_dkim_strict) for one in dkim) or (
        spf is not None and is_aligned(spf, is_strict=policy.is_spf_strict)
    ):
        return AuthenticationCheck(result="pass", domain=domain)
    action = (policy.subdomain_action if is_inherited else None) or policy.action
    result: Literal["temperror", "fail"] = (
        "temperror" if any(one.result == "temperror" for one in checks) else "fail"
    )
    return AuthenticationCheck(result=result, domain=domain, detail=f"p={action}")
