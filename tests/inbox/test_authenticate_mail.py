"""Our own SPF, DKIM and DMARC, asked of a name server of our own."""

from base64 import b64encode
from collections.abc import Iterator
from functools import cache
from typing import Any

import dkim
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given, settings
from hypothesis import strategies as st
from nacl.signing import SigningKey

from mailonce.core.mail.dns_records import DnsRecord, RecordType
from mailonce.core.mail.incoming import Authentication, MailEnvelope
from mailonce.inbox.authenticate_mail import SIGNATURES_MAX, authenticate
from mailonce.net.dns_lookup import BoundedResolver
from tests.net.name_server import NameServer, running_name_server
from tests.stopwatch import Stopwatch

MAIL = (
    b"From: Shop <shop@news.example.com>\r\nTo: ann@in.test\r\nSubject: hello\r\n"
    b"Message-ID: <1@example.com>\r\nDate: Mon, 05 Jan 2026 10:00:00 +0000\r\n\r\nHi Ann\r\n"
)


@pytest.fixture
def names() -> Iterator[NameServer]:
    with running_name_server() as server:
        server.add_text("example.com", "v=spf1 include:spf.example.net -all")
        server.add_text("spf.example.net", "v=spf1 ip4:192.0.2.0/24 a:mx.example.net -all")
        server.records["mx.example.net", "A"] = ["198.51.100.1"]
        server.add_text("_dmarc.example.com", "v=DMARC1; p=reject")
        server.add_text("rsa._domainkey.example.com", f"v=DKIM1; k=rsa; p={rsa_public()}")
        yield server


@cache
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def rsa_public() -> str:
    return b64encode(
        rsa_key().public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    ).decode()  # fmt: skip


def sign(mail: bytes, *, domain: str = "example.com", **more: Any) -> bytes:
    pem = rsa_key().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    given = {"selector": b"rsa", "privkey": pem, **more}
    signature: bytes = dkim.sign(mail, domain=domain.encode(), **given)
    return signature + mail


def envelope(ip: str | None = "192.0.2.7", sender: str = "b@example.com", **more: Any) -> Any:
    fields = {"helo": "mx.example.net", "recipients": ("ann@in.test",), "origin": "smtp", **more}
    return MailEnvelope(client_ip=ip, mail_from=sender, **fields)


def check(
    names: NameServer,
    mail: bytes,
    sent: MailEnvelope | None = None,
    *,
    lookup_s: float = 30.0,
    **more: Any,
) -> Authentication:
    ask = BoundedResolver([names.place], total_s=60.0, lookup_s=lookup_s).for_one_mail()
    found = authenticate(mail, sent or envelope(), ask, **more)
    assert found is not None
    assert found.checked_by == "self"
    return found


def words(found: Authentication) -> tuple[str | None, list[str], str | None]:
    spf = None if found.spf is None else found.spf.result
    dmarc = None if found.dmarc is None else found.dmarc.result
    return spf, [one.result for one in found.dkim], dmarc


def test_a_mail_that_is_what_it_says_passes(names: NameServer) -> None:
    found = check(names, sign(MAIL))

    assert words(found) == ("pass", ["pass"], "pass")
    assert found.spf is not None
    assert found.dmarc is not None
    domains = found.spf.domain, found.dkim[0].domain, found.dmarc.domain
    assert domains == ("example.com", "example.com", "news.example.com")


@pytest.mark.parametrize(
    ("ip", "sender", "result"),
    [
        ("192.0.2.7", "b@example.com", "pass"),
        ("198.51.100.1", "b@example.com", "pass"),
        ("203.0.113.1", "b@example.com", "fail"),
        ("2001:db8::1", "b@example.com", "fail"),
        ("192.0.2.7", "b@none.example", "none"),
        ("192.0.2.7", "b@", "none"),
        # A bounce has no sender: the name of the server is asked about.
        ("192.0.2.7", "", "none"),
        (None, "b@example.com", None),
    ],
)
def test_spf_asks_whether_the_address_may_send(
    names: NameServer, ip: str | None, sender: str, result: str | None
) -> None:
    assert words(check(names, MAIL, envelope(ip, sender)))[0] == result


def test_who_logged_in_needs_no_address_of_the_domain(names: NameServer) -> None:
    assert check(names, MAIL, envelope("203.0.113.1", user="ann")).spf is None


@pytest.mark.parametrize(
    ("change", "result"),
    [
        (lambda mail: mail.replace(b"Hi Ann", b"Hi Eve"), "fail"),
        (lambda mail: mail.replace(b"Subject: hello", b"Subject: other"), "fail"),
        # Another sender above the one that was signed.
        (lambda mail: b"From: eve@example.com\r\n" + mail, "fail"),
        (lambda mail: mail.replace(b"s=rsa", b"s=none"), "permerror"),
        (lambda mail: mail.replace(b"bh=", b"zz="), "permerror"),
        (lambda mail: mail.replace(b"a=rsa-sha256", b"a=rsa-sha1"), "permerror"),
    ],
)
def test_a_signature_that_does_not_fit_is_no_pass(
    names: NameServer, change: Any, result: str
) -> None:
    assert words(check(names, change(sign(MAIL))))[1] == [result]


def test_a_signature_of_another_domain_speaks_for_nobody_else(names: NameServer) -> None:
    names.add_text("rsa._domainkey.example.org", f"v=DKIM1; p={rsa_public()}")

    found = check(names, sign(MAIL, domain="example.org"), envelope("203.0.113.1"))

    assert words(found) == ("fail", ["pass"], "fail")


def test_a_signature_of_a_part_of_the_body_is_not_enough(names: NameServer) -> None:
    found = check(names, sign(MAIL, length=True) + b"and more\r\n", envelope("203.0.113.1"))

    assert words(found) == ("fail", ["neutral"], "fail")


def test_a_signature_that_leaves_out_the_sender_is_none(names: NameServer) -> None:
    signed = sign(MAIL, include_headers=[b"from", b"subject"])
    found = check(names, signed.replace(b"from : ", b"").replace(b" : from", b""))

    assert "pass" not in words(found)[1]


def test_ed25519_is_known(names: NameServer) -> None:
    key = SigningKey.generate()
    public = b64encode(bytes(key.verify_key)).decode()
    names.add_text("ed._domainkey.example.com", f"v=DKIM1; k=ed25519; p={public}")
    private = b64encode(bytes(key))

    signed = sign(MAIL, selector=b"ed", privkey=private, signature_algorithm=b"ed25519-sha256")

    assert words(check(names, signed))[1] == ["pass"]


@pytest.mark.parametrize("size", [512, 8192])
def test_a_key_of_a_foolish_size_counts_for_nothing(names: NameServer, size: int) -> None:
    # Nobody signs with it: a key is refused by its size, before any arithmetic.
    body = b64encode(b"\x30" * (size // 8)).decode() + "A" * (2_000 if size > 4096 else 0)
    names.add_text("big._domainkey.example.com", f"v=DKIM1; p={body}")

    signed = sign(MAIL).replace(b"s=rsa", b"s=big")

    assert words(check(names, signed))[1] == ["permerror"]


def test_of_many_signatures_the_first_are_checked(names: NameServer) -> None:
    signed = MAIL
    for _ in range(SIGNATURES_MAX + 3):
        signed = sign(signed)

    assert len(check(names, signed).dkim) == SIGNATURES_MAX


def test_several_senders_are_no_sender(names: NameServer) -> None:
    for mail in (
        MAIL.replace(b"From: Shop <shop@news.example.com>", b"From: a@example.com, b@example.com"),
        b"From: eve@example.com\r\n" + MAIL,
        MAIL.replace(b"From:", b"X-From:"),
    ):
        assert words(check(names, mail))[2] == "permerror"


def test_a_domain_without_a_policy_asks_for_nothing(names: NameServer) -> None:
    found = check(names, MAIL.replace(b"news.example.com", b"example.org"))

    assert words(found)[2] == "none"


@pytest.mark.parametrize(
    ("silent", "expected"),
    [
        ({"example.com"}, ("temperror", ["pass"], "pass")),
        ({"spf.example.net"}, ("temperror", ["pass"], "pass")),
        ({"rsa._domainkey.example.com"}, ("pass", ["temperror"], "pass")),
        ({"_dmarc.news.example.com"}, ("pass", ["pass"], "temperror")),
        ({"_dmarc.example.com"}, ("pass", ["pass"], "temperror")),
        ({"*"}, ("temperror", ["temperror"], "temperror")),
    ],
)
def test_what_the_dns_does_not_answer_is_a_temporary_error(
    names: NameServer, silent: set[str], expected: Any
) -> None:
    names.silent = silent

    # Long enough for the answers that come, and waited for where none does.
    assert words(check(names, sign(MAIL), lookup_s=0.5)) == expected


def test_where_a_trusted_server_has_checked_nobody_is_asked(names: NameServer) -> None:
    mail = b"Authentication-Results: mx.in.test; spf=pass smtp.mailfrom=example.com\r\n" + MAIL
    ask = BoundedResolver([names.place]).for_one_mail()

    assert authenticate(mail, envelope(), ask, trusted_servers=["mx.in.test"]) is None
    assert names.asked.total() == 0
    assert words(check(names, mail))[0] == "pass"


@pytest.mark.parametrize(
    "record",
    [
        "v=spf1 include:example.com -all",
        "v=spf1 redirect=example.com",
        "v=spf1 exists:%{ir}.%{v}.%{d}%{d}%{d}%{d} a mx ptr -all",
        "v=spf1 ip4:999.0.0.1 -all",
        "v=spf1 " + "a:%{l}.example.com " * 30,
        "v=spf1 exp=%{z} -all",
    ],
)
def test_a_hostile_policy_costs_few_lookups_and_ends(names: NameServer, record: str) -> None:
    names.records["example.com", "TXT"] = []
    names.add_text("example.com", record)

    result = words(check(names, MAIL))[0]

    assert result in {"permerror", "fail", "neutral", "none"}
    assert names.asked.total() < 40


SIGNATURE = (
    b"DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=example.com; s=rsa; h=from; "
    b"bh=AAAA; b=AAAA\r\n"
)
BOMBS = {
    "spaces": SIGNATURE * 5 + MAIL + b" " * 2_000_000,
    "lines": SIGNATURE * 5 + MAIL + b"\n" * 3_000_000,
    "large": SIGNATURE * 5 + MAIL + b"x" * 10_000_000,
    "folded": SIGNATURE * 5 + b"X-A: b" + b"\r\n " * 100_000 + b"\r\n" + MAIL,
    "names": SIGNATURE.replace(b"h=from", b"h=" + b"a:" * 100_000 + b"from") * 5 + MAIL,
    "tags": SIGNATURE.replace(b"b=AAAA", b"b=AA" + b" " * 100_000 + b"!") * 5 + MAIL,
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_mail_that_is_made_to_cost_much_costs_little(names: NameServer, name: str) -> None:
    with Stopwatch() as watch:
        found = check(names, BOMBS[name])

    assert "pass" not in words(found)[1]
    assert watch.seconds < 2


PIECES = st.sampled_from(
    [
        b"DKIM-Signature: ", b"v=1; a=rsa-sha256; c=relaxed/simple; d=example.com; s=rsa; ",
        b"h=from:to; ", b"bh=AAAA; ", b"b=AAAA\r\n", b"l=99999999999999999999; ", b"x=1; t=9;",
        b"From: a@example.com\r\n", b"From: <@\xff>\r\n", b"\r\n", b"\n", b"\r", b"i=@x; ", b"=;=;",
        b"body \xff\x00", b"q=dns/txt; ", b" \t\r\n ",
    ]
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(PIECES, max_size=20), st.binary(max_size=40), st.text(max_size=20))
def test_no_mail_makes_the_checks_fail_otherwise(
    pieces: list[bytes], junk: bytes, sender: str
) -> None:
    def ask(name: str, type_: RecordType) -> list[DnsRecord]:
        del name
        return [DnsRecord("x.test", text=junk, preference=1)] if type_ in {"TXT", "MX"} else []

    found = authenticate(b"".join(pieces), envelope("192.0.2.1", sender), ask)

    assert found is None or found.checked_by == "self"
