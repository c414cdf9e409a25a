"""Lookups that are bounded, and a silence that is remembered."""

import time
from collections.abc import Iterator

import pytest

from mailonce.core.mail.dns_records import DnsRecord
from mailonce.errors import UnavailableError
from mailonce.net.dns_lookup import LOOKUPS_MAX, SILENT_NAMES, SILENT_S, BoundedResolver
from tests.net.name_server import NameServer, running_name_server

# Where an answer comes, however busy the machine is.
PATIENT_S = 30.0


@pytest.fixture
def names() -> Iterator[NameServer]:
    with running_name_server() as server:
        yield server


class Now:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.s = 100.0

    def __call__(self) -> float:
        return self.s


def resolver(
    names: NameServer, now: Now | None = None, *, lookup_s: float = PATIENT_S
) -> BoundedResolver:
    return BoundedResolver(
        [names.place], total_s=PATIENT_S, lookup_s=lookup_s, now_s=now or time.monotonic
    )


def test_records_of_each_type_are_read(names: NameServer) -> None:
    names.records = {
        ("a.test", "A"): ["192.0.2.1"],
        ("a.test", "AAAA"): ["2001:db8::1"],
        ("a.test", "MX"): ["10 mx.test."],
        ("1.2.0.192.in-addr.arpa", "PTR"): ["a.test."],
    }
    names.add_text("a.test", "x" * 450)
    ask = resolver(names).for_one_mail()

    assert ask("a.test", "A") == [DnsRecord("192.0.2.1")]
    assert ask("A.test.", "AAAA") == [DnsRecord("2001:db8::1")]
    assert ask("a.test", "MX") == [DnsRecord("mx.test", preference=10)]
    assert ask("1.2.0.192.in-addr.arpa", "PTR") == [DnsRecord("a.test")]
    assert ask("a.test", "TXT") == [DnsRecord("", text=b"x" * 450)]
    assert ask("none.test", "A") == []
    assert ask("1.2.0.192.in-addr.arpa", "A") == []


@pytest.mark.parametrize("name", ["", "a..b", "x" * 64 + ".test", "\ud800.test", "a" * 300])
def test_a_name_that_cannot_be_has_no_records(names: NameServer, name: str) -> None:
    assert resolver(names).for_one_mail()(name, "TXT") == []


def test_one_mail_has_so_many_lookups_and_so_much_time(names: NameServer) -> None:
    now = Now()
    bounded = resolver(names, now)
    ask = bounded.for_one_mail()
    for number in range(LOOKUPS_MAX):
        ask(f"n{number}.test", "A")

    with pytest.raises(UnavailableError, match="too many lookups"):
        ask("one-more.test", "A")
    late = bounded.for_one_mail()
    now.s += PATIENT_S
    with pytest.raises(UnavailableError, match="too long"):
        late("late.test", "A")


def test_a_silent_or_broken_server_is_no_answer_and_is_not_asked_again_at_once(
    names: NameServer,
) -> None:
    now = Now()
    names.silent, names.broken = {"silent.test"}, {"broken.test"}
    bounded = resolver(names, now, lookup_s=0.1)

    for name in ("silent.test", "broken.test"):
        with pytest.raises(UnavailableError, match="no name server answers"):
            bounded.for_one_mail()(name, "TXT")
    asked = names.asked["silent.test"]
    with pytest.raises(UnavailableError, match="a moment ago"):
        bounded.for_one_mail()("silent.test", "TXT")

    bounded._lookup_s = PATIENT_S
    assert bounded.for_one_mail()("other.test", "TXT") == []
    assert names.asked["silent.test"] == asked
    names.silent.clear()
    now.s += SILENT_S
    assert bounded.for_one_mail()("silent.test", "TXT") == []


def test_nobody_waits_long_for_name_servers_that_are_all_silent(names: NameServer) -> None:
    now = Now()
    names.silent = {"*"}
    bounded = resolver(names, now, lookup_s=0.1)
    for number in range(SILENT_NAMES):
        with pytest.raises(UnavailableError, match="no name server answers"):
            bounded.for_one_mail()(f"n{number}.test", "TXT")

    with pytest.raises(UnavailableError, match="a moment ago"):
        bounded.for_one_mail()("fresh.test", "TXT")

    assert names.asked["fresh.test"] == 0
    names.silent.clear()
    bounded._lookup_s = PATIENT_S
    now.s += SILENT_S
    assert bounded.for_one_mail()("fresh.test", "TXT") == []


def test_answers_are_remembered(names: NameServer) -> None:
    names.add_text("a.test", "x")
    bounded = resolver(names)

    for _ in range(3):
        bounded.for_one_mail()("a.test", "TXT")

    assert names.asked["a.test"] == 1
