"""What the MX records of a domain tell."""

from collections.abc import Sequence

import pytest

from mailonce.core.health.checkup import Level
from mailonce.core.health.mx_record import of_mx


@pytest.mark.parametrize(
    ("domain", "hosts", "hostname", "level", "word"),
    [
        ("inbox.localhost", None, "mx.example.com", Level.OK, "this machine"),
        ("in.test", ["mx.example.com"], "MX.example.com.", Level.OK, "mx.example.com"),
        ("in.test", ["other.example"], "mx.example.com", Level.FAIL, "MX 10 mx.example.com"),
        ("in.test", [], "mx.example.com", Level.FAIL, "in.test. MX 10 mx.example.com"),
        ("in.test", [], "", Level.FAIL, "MX 10 the name of the machine"),
        ("in.test", ["other.example"], "", Level.WARN, "smtp.hostname"),
        ("in.test", None, "mx.example.com", Level.WARN, "no name server"),
    ],
)
def test_a_domain_is_judged_by_where_its_mail_goes(
    domain: str, hosts: Sequence[str] | None, hostname: str, level: Level, word: str
) -> None:
    finding = of_mx(domain, hosts, hostname=hostname)

    assert finding.level is level
    assert word in f"{finding.detail} {finding.advice}"
