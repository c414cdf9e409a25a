from typing import Any

import pytest

from mailonce.core.extraction.host_name import registrable_domain
from mailonce.core.mail.dmarc import DmarcPolicy, judge_dmarc, read_policy
from mailonce.core.mail.incoming import AuthenticationCheck

REJECT = DmarcPolicy(action="reject", subdomain_action="quarantine")


def judge(spf: str | None, *dkim: str, **more: Any) -> AuthenticationCheck:
    """Judge `result domain` pairs for mail of news.example.com."""
    checks = [_check(one) for one in dkim]
    given = {"policy": REJECT, **more}
    policy = given.pop("policy")
    return judge_dmarc(
        "news.example.com",
        policy,
        spf=None if spf is None else _check(spf),
        dkim=checks,
        organization_of=registrable_domain,
        **given,
    )


def _check(text: str) -> AuthenticationCheck:
    result, _, domain = text.partition(" ")
    return AuthenticationCheck(result=result, domain=domain or None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("record", "policy"),
    [
        (b"v=DMARC1; p=reject", DmarcPolicy(action="reject")),
        (b"v=DMARC1;p=quarantine;sp=none;adkim=s;aspf=s", DmarcPolicy(
            action="quarantine", subdomain_action="none", is_dkim_strict=True, is_spf_strict=True)),
        (b"v=DMARC1; p=what; rua=mailto:a@b.c", DmarcPolicy()),
        (b"v=DMARC1", DmarcPolicy()),
        (b"v=DMARC10; p=reject", None),
        (b"p=reject; v=DMARC1", None),
        (b"v=spf1 -all", None),
        (b"\xff\x00" * 5_000, None),
    ],
)  # fmt: skip
def test_a_policy_is_read(record: bytes, policy: DmarcPolicy | None) -> None:
    assert read_policy([b"unrelated", record]) == policy


def test_several_policies_are_none() -> None:
    assert read_policy([b"v=DMARC1; p=none", b"v=DMARC1; p=reject"]) is None


@pytest.mark.parametrize(
    ("spf", "dkim", "result"),
    [
        ("pass news.example.com", [], "pass"),
        ("pass bounces.example.com", [], "pass"),
        ("pass example.org", [], "fail"),
        (None, ["pass example.com"], "pass"),
        ("fail example.com", ["fail example.com", "pass EXAMPLE.com"], "pass"),
        ("pass", ["pass"], "fail"),
        ("temperror example.com", ["fail example.com"], "temperror"),
        ("softfail example.com", ["neutral example.com", "permerror example.com"], "fail"),
        # A suffix under which anybody can register is nobody's organization.
        ("pass com", ["pass com"], "fail"),
    ],
)
def test_only_what_passed_for_the_same_organization_counts(
    spf: str | None, dkim: list[str], result: str
) -> None:
    assert judge(spf, *dkim).result == result


def test_a_strict_policy_wants_the_very_domain() -> None:
    strict = DmarcPolicy(action="reject", is_dkim_strict=True, is_spf_strict=True)

    assert judge("pass example.com", "pass example.com", policy=strict).result == "fail"
    assert judge(None, "pass news.example.com", policy=strict).result == "pass"


def test_a_failure_says_what_the_domain_asks_for() -> None:
    assert judge(None).detail == "p=reject"
    assert judge(None, is_inherited=True).detail == "p=quarantine"
