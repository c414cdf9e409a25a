"""Scaleway: whose certificates count, what a topic says of itself, and which hosts are asked."""

import json
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import NeedKey, Parsed, Refused, Verdict, Verified
from mailonce.core.arrivals.source import Source
from mailonce.core.events.event import EventType
from mailonce.core.events.key import keys_of
from mailonce.core.events.suppression import statement_of
from mailonce.errors import ParseError
from mailonce.providers.scaleway import PROVIDER
from tests.providers.cases import SCOPE, cases_of, source_of
from tests.providers.sns_peer import NOW_MS, Signer, authority, handshake, issued, notification

TOPIC = "arn:scw:sns:fr-par:project-1f2e:tem-events"
CERT_URL = "https://messaging.s3.fr-par.scw.cloud/fr-par/sns/sns_certificate_0123abcd.crt"
CONFIRM_URL = (
    "https://sns.mnq.fr-par.scaleway.com/?Action=ConfirmSubscription"
    f"&TopicArn={TOPIC}&Token=2336412f37fb687f"
)
ROOT = authority("Scaleway")
DELIVERED = {"id": "ev-1", "type": "email_delivered", "email_id": "e1", "email_to": "a@x.test"}

UNTRUSTED = Refused("certificate is not issued by the pinned CA")


def source(*pinned: bytes, **settings: Any) -> Source:
    texts = tuple(one.decode() for one in pinned or (ROOT.certificate,))
    return source_of("scaleway", public_keys=texts, topic_arns=(TOPIC,), **settings)


def envelope(**changes: Any) -> dict[str, Any]:
    fields = {"TopicArn": TOPIC, "SigningCertURL": CERT_URL, **changes}
    return notification(DELIVERED, **fields)


def confirmation(type_: str = "SubscriptionConfirmation", **changes: Any) -> dict[str, Any]:
    fields = {"TopicArn": TOPIC, "SigningCertURL": CERT_URL, "SubscribeURL": CONFIRM_URL, **changes}
    return handshake(type_, **fields)


def arrive(body: Any, now_ms: int = NOW_MS) -> Arrival:
    return Arrival(method="POST", headers={}, body=json.dumps(body).encode(), now_ms=now_ms)


def verdict(
    leaf: Signer,
    pinned: Source | None = None,
    *,
    fetched: bytes | None = None,
    now_ms: int = NOW_MS,
    **changes: Any,
) -> Verdict:
    fields = envelope(**changes)
    keys = {fields["SigningCertURL"]: leaf.certificate if fetched is None else fetched}
    return PROVIDER.verify(arrive(leaf.sign(fields), now_ms), pinned or source(), keys)


def parsed(body: Any) -> Parsed:
    return PROVIDER.parse(arrive(body), source())


# Whose certificates count


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_certificate_of_the_pinned_ca_is_trusted(version: str) -> None:
    leaf = issued(ROOT)
    body = leaf.sign(envelope(), version)

    result = PROVIDER.verify(arrive(body), source(), {CERT_URL: leaf.certificate})

    assert result == Verified()


def test_the_certificate_is_asked_for_where_scaleway_keeps_it() -> None:
    body = issued(ROOT).sign(envelope())

    assert PROVIDER.verify(arrive(body), source(), {}) == NeedKey(CERT_URL)


def test_an_old_and_a_new_certificate_count_during_a_rotation() -> None:
    old, new = issued(ROOT, "old"), issued(ROOT, "new")
    url = CERT_URL.replace("0123abcd", "4567")

    verdicts = verdict(old), verdict(new, SigningCertURL=url)

    assert verdicts == (Verified(), Verified())


def test_a_certificate_in_der_is_read_as_well() -> None:
    leaf = issued(ROOT)
    der = x509.load_pem_x509_certificate(leaf.certificate).public_bytes(Encoding.DER)

    assert verdict(leaf, fetched=der) == Verified()


def test_a_bundle_may_hold_the_root_and_who_it_empowered() -> None:
    between = authority("between", by=ROOT)

    result = verdict(issued(between), source(ROOT.certificate + between.certificate))

    assert result == Verified()


def test_who_stands_between_may_come_with_the_certificate() -> None:
    between = authority("between", by=ROOT)
    leaf = issued(between)

    assert verdict(leaf, fetched=leaf.certificate + between.certificate) == Verified()
    assert verdict(leaf, fetched=leaf.certificate) == UNTRUSTED


def test_a_certificate_of_another_ca_is_refused() -> None:
    assert verdict(issued(authority("Mallory"))) == UNTRUSTED


def test_a_ca_of_the_same_name_is_still_another() -> None:
    namesake = authority("Scaleway", days_to=29)

    assert verdict(issued(namesake)) == UNTRUSTED


def test_a_certificate_that_signs_itself_is_refused() -> None:
    assert verdict(authority("Mallory", ca=False)) == UNTRUSTED


def test_a_mere_certificate_of_the_ca_can_issue_none() -> None:
    leaf = authority("pretender", by=ROOT, ca=False)
    forged = issued(leaf)

    assert verdict(forged, fetched=forged.certificate + leaf.certificate) == UNTRUSTED


def test_a_pinned_certificate_that_is_no_ca_counts_for_nothing() -> None:
    leaf = issued(ROOT)

    assert verdict(leaf, source(leaf.certificate)) == Refused("no usable CA certificate")
    assert verdict(leaf, source(b"")) == Refused("no usable CA certificate")


def test_certificates_count_within_their_dates() -> None:
    late, early = issued(ROOT, days_to=-1), issued(ROOT, days_from=1)
    expired = authority("expired", days_to=-1)

    assert verdict(late) == Refused("certificate is not valid at this time")
    assert verdict(early) == Refused("certificate is not valid at this time")
    assert verdict(issued(expired), source(expired.certificate)) == UNTRUSTED


def test_what_is_no_certificate_is_refused_not_raised() -> None:
    for fetched in (b"", b"0\x82", b"<html>", b"-----BEGIN CERTIFICATE-----\n", ROOT.public_key):
        assert verdict(issued(ROOT), fetched=fetched) == Refused("certificate is broken")


def test_a_changed_field_is_refused() -> None:
    leaf = issued(ROOT)
    body = {**leaf.sign(envelope()), "Message": "{}"}

    result = PROVIDER.verify(arrive(body), source(), {CERT_URL: leaf.certificate})

    assert result == Refused("wrong signature")


def test_another_topic_is_refused_however_well_it_is_signed() -> None:
    assert verdict(issued(ROOT), TopicArn=TOPIC + "2") == Refused("topic is not allowed")


@pytest.mark.parametrize("direction", [-1, 1])
def test_a_published_time_counts_for_eight_hours(direction: int) -> None:
    published_ms = NOW_MS - 54_000
    edge_ms = 8 * 3600 * 1000

    last = verdict(issued(ROOT), now_ms=published_ms + direction * edge_ms)
    stale = verdict(issued(ROOT), now_ms=published_ms + direction * (edge_ms + 1))

    assert last == Verified()
    assert stale == Refused("stale timestamp")


@pytest.mark.parametrize(
    "url",
    [
        CERT_URL.replace("https", "http"),
        CERT_URL.replace("messaging.s3", "messaging-2.s3"),
        CERT_URL.replace("scw.cloud", "scw.cloud.evil.test"),
        CERT_URL.replace("messaging.s3", "evil.test/messaging.s3"),
        CERT_URL.replace("https://", "https://user@"),
        CERT_URL.replace(".cloud/", ".cloud:8443/"),
        CERT_URL.replace("/fr-par/", "/nl-ams/"),
        CERT_URL.replace("sns_certificate_", "../../x/sns_certificate_"),
        CERT_URL.replace(".crt", ".crt?x=1"),
        CERT_URL + "#x",
        CERT_URL + "\n",
        "https://messaging.s3.fr-par.scw.cloud/fr-par/sns/other.crt",
        "",
        None,
        7,
    ],
)
def test_no_other_url_is_ever_fetched_for_a_certificate(url: Any) -> None:
    body = issued(ROOT).sign(envelope(SigningCertURL=url))

    result = PROVIDER.verify(arrive(body), source(), {})

    assert result == Refused("certificate URL is not Scaleway's")


@pytest.mark.parametrize("host", ["nl-ams", "fr-par"])
def test_the_other_regions_certificates_may_lie_on_either_host(host: str) -> None:
    topic = TOPIC.replace("fr-par", "nl-ams")
    url = f"https://messaging.s3.{host}.scw.cloud/nl-ams/sns/sns_certificate_1.crt"
    body = issued(ROOT).sign(envelope(TopicArn=topic, SigningCertURL=url))
    dutch = source_of("scaleway", public_keys=(ROOT.certificate.decode(),), topic_arns=(topic,))

    assert PROVIDER.verify(arrive(body), dutch, {}) == NeedKey(url)


# What a topic says of itself


def test_a_subscription_is_confirmed_at_scaleway() -> None:
    assert parsed(confirmation()) == Parsed(confirm_url=CONFIRM_URL, delivery_id="0b0a-2")


@pytest.mark.parametrize(
    "url",
    [
        CONFIRM_URL.replace("https", "http"),
        CONFIRM_URL.replace("scaleway.com", "scaleway.com.evil.test"),
        CONFIRM_URL.replace("mnq.fr-par", "mnq.nl-ams"),
        CONFIRM_URL.replace("ConfirmSubscription", "DeleteTopic"),
        CONFIRM_URL.replace(TOPIC, TOPIC + "-of-another"),
        "https://169.254.169.254/?Action=ConfirmSubscription",
        "",
    ],
)
def test_no_other_url_is_ever_fetched_to_confirm(url: str) -> None:
    with pytest.raises(ParseError):
        parsed(confirmation(SubscribeURL=url))


def test_an_ended_subscription_is_shown_without_the_token_that_could_renew_it() -> None:
    [event] = parsed(confirmation("UnsubscribeConfirmation")).events

    assert event.type is EventType.OTHER
    assert "2336412f37fb687f" not in json.dumps(event.raw)


# What is said


def test_an_event_published_again_is_the_same_event() -> None:
    first = parsed(envelope())
    again = parsed(envelope(MessageId="another", Timestamp="2026-01-01T00:09:00.000Z"))

    one, other = (
        keys_of(SCOPE, arrival_parsed.events[0].identity) for arrival_parsed in (first, again)
    )

    assert one == other
    assert (first.delivery_id, again.delivery_id) == ("0b0a-1", "another")


@pytest.mark.parametrize("message", ["a sentence", "[1]", "{}", '{"type":7}', "null"])
def test_a_message_that_is_no_event_is_a_parse_error(message: str) -> None:
    with pytest.raises(ParseError):
        parsed(envelope(Message=message))


def test_spam_that_nobody_complained_of_suppresses_nobody() -> None:
    [case] = [one for one in cases_of("scaleway") if one.name == "email_spam"]

    [event] = parsed(case.value).events

    assert statement_of(event) is None


@given(
    message=st.dictionaries(
        st.sampled_from(["id", "email_id", "email_to", "created_at", "email_headers"]),
        st.none() | st.integers() | st.text() | st.lists(st.dictionaries(st.text(), st.text())),
    )
)
def test_the_fields_of_a_message_may_hold_anything(message: dict[str, Any]) -> None:
    [event] = parsed(envelope(Message=json.dumps({**message, "type": "email_dropped"}))).events

    keys_of(SCOPE, event.identity)


# What an operator must set


def test_the_ca_that_we_do_not_ship_is_asked_for() -> None:
    trouble = PROVIDER.check(source_of("scaleway", topic_arns=(TOPIC,)))

    assert trouble is not None
    assert "mailonce does not ship" in trouble
    assert "sns-trust-chain.pem" in trouble


@pytest.mark.parametrize(
    "settings",
    [
        {"topic_arns": ()},
        {"topic_arns": ("arn:aws:sns:eu-west-1:111122223333:x",)},
        {"topic_arns": ("arn:scw:sns:us-east:project-1:x",)},
        {"public_keys": ("no PEM",)},
        {"public_keys": (issued(ROOT).certificate.decode(),)},
        {"options": {"signature_versions": ["3"]}},
    ],
)
def test_a_source_that_could_never_work_is_named(settings: dict[str, Any]) -> None:
    good = {"topic_arns": (TOPIC,), "public_keys": (ROOT.certificate.decode(),)}

    assert PROVIDER.check(source_of("scaleway", **good)) is None
    assert PROVIDER.check(source_of("scaleway", **{**good, **settings})) is not None
