"""Amazon SES through SNS: who may speak, what is said, and how copies are known."""

import contextlib
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import NeedKey, Parsed, Refused, Verdict, Verified
from mailonce.core.arrivals.source import Source
from mailonce.core.events.event import EventType
from mailonce.core.events.key import EventKeys, KeyScope, keys_of
from mailonce.core.events.suppression import statement_of
from mailonce.errors import ParseError
from mailonce.providers.ses import PROVIDER
from tests.providers.cases import cases_of
from tests.providers.sns_peer import (
    CERT_URL,
    CONFIRM_URL,
    NOW_MS,
    TOPIC,
    handshake,
    notification,
    signer,
)

CASES = cases_of("ses")

SOURCE = Source(
    id="src_1", workspace="default", name="ses", provider="ses", account="ses", topic_arns=(TOPIC,)
)
SCOPE = KeyScope("default", "ses", "ses")
KEYS = {CERT_URL: signer().certificate}
MAIL = {
    "timestamp": "2026-01-01T00:00:00.000Z",
    "messageId": "0102018f-m1",
    "destination": ["a@x.test"],
}
DELIVERY = {
    "eventType": "Delivery",
    "delivery": {
        "timestamp": "2026-01-01T00:00:01.500Z",
        "recipients": ["a@x.test"],
        "smtpResponse": "250 ok",
    },
    "mail": MAIL,
}
BOUNCE = {
    "eventType": "Bounce",
    "bounce": {
        "feedbackId": "0102018f-fb",
        "bounceType": "Permanent",
        "bounceSubType": "General",
        "timestamp": "2026-01-01T00:00:05.123Z",
        "bouncedRecipients": [
            {"emailAddress": "a@x.test"},
            {"emailAddress": "b@x.test"},
            {"emailAddress": "c@x.test"},
        ],
    },
    "mail": MAIL,
}


def arrive(body: Any, headers: dict[str, str] | None = None, now_ms: int = NOW_MS) -> Arrival:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Arrival(method="POST", headers=headers or {}, body=raw, now_ms=now_ms)


def verdict(
    envelope: Any, source: Source = SOURCE, headers: dict[str, str] | None = None, **more: Any
) -> Verdict:
    return PROVIDER.verify(arrive(envelope, headers, **more), source, KEYS)


def parsed(envelope: Any, headers: dict[str, str] | None = None) -> Parsed:
    return PROVIDER.parse(arrive(envelope, headers), SOURCE)


def keys(message: Any, **envelope: Any) -> list[EventKeys]:
    events = parsed(notification(message, **envelope)).events
    return [keys_of(SCOPE, event.identity) for event in events]


# What is said


def test_a_wrapped_message_means_the_same_as_a_raw_one(subtests: pytest.Subtests) -> None:
    """What a raw one means is said by the golden cases."""
    headers = {"x-amz-sns-rawdelivery": "true", "x-amz-sns-message-id": "0b0a-1"}
    for case in CASES:
        with subtests.test(case.name):
            wrapped, raw = parsed(notification(case.value)), parsed(case.value, headers)

            assert wrapped == raw
            assert wrapped.delivery_id == "0b0a-1"


def test_an_event_without_a_time_happened_when_it_was_published() -> None:
    mail = {name: value for name, value in MAIL.items() if name != "timestamp"}
    send = {"eventType": "Send", "send": {}, "mail": mail}
    timed = {"eventType": "Send", "send": {}, "mail": MAIL}

    [without], [with_] = (
        parsed(notification(one, Timestamp="2026-01-01T00:00:09.000Z")).events
        for one in (send, timed)
    )

    assert without.occurred_ms == NOW_MS - 51_000
    assert with_.occurred_ms == NOW_MS - 60_000


def test_the_sentence_of_a_validated_topic_is_a_probe() -> None:
    sentence = "Successfully validated SNS topic for Amazon SES event publishing."

    assert parsed(notification(sentence)) == Parsed(delivery_id="0b0a-1")


def test_a_subscription_is_confirmed_at_amazon() -> None:
    outcome = parsed(handshake())

    assert outcome.confirm_url == CONFIRM_URL
    assert outcome.events == ()


@pytest.mark.parametrize(
    "url",
    [
        CONFIRM_URL.replace("https", "http"),
        CONFIRM_URL.replace("amazonaws.com", "amazonaws.com.evil.test"),
        CONFIRM_URL.replace("sns.eu-west-1", "sns.us-east-1"),
        CONFIRM_URL.replace("sns.eu-west-1", "user@sns.eu-west-1"),
        CONFIRM_URL.replace(".com/", ".com:8443/"),
        CONFIRM_URL.replace("ConfirmSubscription", "DeleteTopic"),
        CONFIRM_URL + "&Action=DeleteTopic",
        CONFIRM_URL.replace(TOPIC, TOPIC + "-of-another"),
        CONFIRM_URL + "#fragment",
        CONFIRM_URL + "\n",
        "https://127.0.0.1/?Action=ConfirmSubscription",
        "",
    ],
)
def test_no_other_url_is_ever_fetched_to_confirm(url: str) -> None:
    with pytest.raises(ParseError):
        parsed(handshake(SubscribeURL=url))


def test_an_ended_subscription_is_shown_without_the_token_that_could_renew_it() -> None:
    outcome = parsed(handshake("UnsubscribeConfirmation"))

    [event] = outcome.events
    assert event.type is EventType.OTHER
    assert outcome.confirm_url is None
    assert "2336412f37fb687f" not in json.dumps(event.raw)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'"text"',
        b"{}",
        json.dumps(notification("no JSON, no known sentence")).encode(),
        json.dumps(notification("[1]")).encode(),
        json.dumps(notification({"AlarmName": "cpu"})).encode(),
        json.dumps(notification(DELIVERY, Type="Surprise")).encode(),
        json.dumps(notification(DELIVERY, Type=["Notification"])).encode(),
        json.dumps(notification(DELIVERY, SigningCertUrl="https://evil.test/x.pem")).encode(),
    ],
)
def test_what_is_no_event_of_ses_is_a_parse_error(body: bytes) -> None:
    with pytest.raises(ParseError):
        parsed(body)


def test_uncertain_and_soft_events_never_suppress(subtests: pytest.Subtests) -> None:
    for case in CASES:
        with subtests.test(case.name):
            for event in parsed(notification(case.value)).events:
                say = statement_of(event)
                if not event.certain or event.bounce not in {None, "hard"}:
                    assert say is None


# How copies are known


def test_a_bounce_of_three_recipients_has_three_keys() -> None:
    event_keys = keys(BOUNCE)

    assert len({one.key for one in event_keys}) == 3


def test_a_copy_published_again_has_the_same_keys_and_content(subtests: pytest.Subtests) -> None:
    for case in CASES:
        with subtests.test(case.name):
            again = keys(case.value, MessageId="another", Timestamp="2026-01-01T00:09:00.000Z")

            assert again == keys(case.value)


@pytest.mark.parametrize(
    "event",
    [
        BOUNCE,
        DELIVERY,
        {
            "eventType": "Complaint",
            "complaint": {
                "feedbackId": "0102018f-cf",
                "complainedRecipients": [{"emailAddress": "a@x.test"}],
                "complaintFeedbackType": "abuse",
            },
            "mail": MAIL,
        },
    ],
    ids=lambda event: str(event["eventType"]),
)
def test_an_identity_and_a_configuration_set_speak_of_one_event(event: dict[str, Any]) -> None:
    published = {**event, "mail": {**MAIL, "tags": {"ses:configuration-set": ["main"]}}}
    word = event["eventType"]
    notified = {name: value for name, value in event.items() if name != "eventType"}
    notified["notificationType"] = word
    notified["mail"] = {**MAIL, "sourceIp": "192.0.2.1", "headersTruncated": False}
    detail = word.lower()
    notified[detail] = {**event[detail], "remoteMtaIp": "198.51.100.7", "processingTimeMillis": 3}

    assert keys(notified) == keys(published)


def test_an_eventbridge_copy_is_known_by_the_same_key() -> None:
    wrapped = {"source": "aws.ses", "detail-type": "Email Delivered", "detail": DELIVERY}

    assert keys(wrapped) == keys(DELIVERY)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("delivery", "timestamp"), "2026-01-01T00:00:01.501Z"),
        (("delivery", "recipients"), ["b@x.test"]),
        (("mail", "messageId"), "another"),
    ],
)
def test_another_delivery_has_another_key(path: tuple[str, str], value: Any) -> None:
    other = json.loads(json.dumps(DELIVERY))
    other[path[0]][path[1]] = value

    assert keys(other)[0].key != keys(DELIVERY)[0].key


def test_a_bounce_that_changes_its_class_is_other_content_under_the_same_key() -> None:
    other = {**BOUNCE, "bounce": {**BOUNCE["bounce"], "bounceType": "Transient"}}  # type: ignore[dict-item]

    [one, *_], [two, *_] = keys(BOUNCE), keys(other)

    assert one.key == two.key
    assert one.fingerprint != two.fingerprint


def test_opens_of_one_mail_at_two_times_are_two_events() -> None:
    first = {"eventType": "Open", "open": {"timestamp": "2026-01-01T01:00:00.000Z"}, "mail": MAIL}
    second = {"eventType": "Open", "open": {"timestamp": "2026-01-01T02:00:00.000Z"}, "mail": MAIL}

    assert keys(first)[0].key != keys(second)[0].key


def test_bounces_without_a_feedback_id_do_not_fall_together() -> None:
    def bare(message_id: str) -> dict[str, Any]:
        detail = {"bounceType": "Permanent", "bouncedRecipients": [{"emailAddress": "a@x.test"}]}
        return {"eventType": "Bounce", "bounce": detail, "mail": {"messageId": message_id}}

    assert keys(bare("m1"))[0].key != keys(bare("m2"))[0].key


# Who may speak


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("subject", [{}, {"Subject": None}, {"Subject": "Amazon SES Ünicode"}])
def test_a_signed_notification_is_verified(version: str, subject: dict[str, Any]) -> None:
    envelope = signer().sign(notification(DELIVERY, **subject), version)

    assert verdict(envelope) == Verified()


@pytest.mark.parametrize("type_", ["SubscriptionConfirmation", "UnsubscribeConfirmation"])
def test_a_signed_handshake_is_verified(type_: str) -> None:
    assert verdict(signer().sign(handshake(type_))) == Verified()


def test_the_spelling_of_lambda_forwarders_is_verified() -> None:
    envelope = signer().sign(handshake())
    envelope["SubscribeUrl"] = envelope.pop("SubscribeURL")
    envelope["SigningCertUrl"] = envelope.pop("SigningCertURL")

    assert verdict(envelope) == Verified()


@pytest.mark.parametrize("name", ["Message", "MessageId", "Timestamp", "TopicArn", "Subject"])
def test_a_changed_field_is_refused(name: str) -> None:
    envelope = signer().sign(notification(DELIVERY, Subject="s"))
    changes = {"Timestamp": "2026-01-01T00:00:07.000Z", "TopicArn": TOPIC + "2"}
    source = replace(SOURCE, topic_arns=(TOPIC, TOPIC + "2"))

    envelope[name] = changes.get(name, envelope[name] + " ")

    assert verdict(envelope, source) == Refused("wrong signature")


def test_a_signature_of_another_key_is_refused() -> None:
    assert verdict(signer("mallory").sign(notification(DELIVERY))) == Refused("wrong signature")


def test_a_sha1_signature_does_not_pass_as_version_2() -> None:
    envelope = {**signer().sign(notification(DELIVERY), "1"), "SignatureVersion": "2"}

    assert verdict(envelope) == Refused("wrong signature")


@pytest.mark.parametrize("signature", [None, "", "%%%", 7, ["x"], "ä"])
def test_a_missing_or_broken_signature_is_refused(signature: Any) -> None:
    envelope = {**signer().sign(notification(DELIVERY)), "Signature": signature}

    assert isinstance(verdict(envelope), Refused)


@pytest.mark.parametrize("version", ["3", "", None, 2, ["2"], {}])
def test_an_unknown_signature_version_is_refused(version: Any) -> None:
    envelope = {**signer().sign(notification(DELIVERY)), "SignatureVersion": version}

    assert verdict(envelope) == Refused("signature version is not allowed")


def test_a_source_may_insist_on_version_2() -> None:
    source = replace(SOURCE, options={"signature_versions": ["2"]})

    old = verdict(signer().sign(notification(DELIVERY), "1"), source)
    new = verdict(signer().sign(notification(DELIVERY), "2"), source)

    assert old == Refused("signature version is not allowed")
    assert new == Verified()


@pytest.mark.parametrize("topics", [(), (TOPIC + "-other",), (TOPIC.upper(),)])
def test_a_topic_that_is_not_on_the_list_is_refused(topics: tuple[str, ...]) -> None:
    envelope = signer().sign(notification(DELIVERY))

    assert verdict(envelope, replace(SOURCE, topic_arns=topics)) == Refused("topic is not allowed")


@pytest.mark.parametrize(
    "url",
    [
        "http://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0123abcd.pem",
        "https://sns.eu-west-1.amazonaws.com.evil.test/SimpleNotificationService-0123abcd.pem",
        "https://sns.s3.amazonaws.com/SimpleNotificationService-0123abcd.pem",
        "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-0123abcd.pem",
        "https://evil@sns.eu-west-1.amazonaws.com/SimpleNotificationService-0123abcd.pem",
        "https://sns.eu-west-1.amazonaws.com@evil.test/SimpleNotificationService-0123abcd.pem",
        "https://sns.eu-west-1.amazonaws.com:8443/SimpleNotificationService-0123abcd.pem",
        "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0123abcd.pem?x=1",
        "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0123abcd.pem#x",
        "https://sns.eu-west-1.amazonaws.com/../SimpleNotificationService-0123abcd.pem",
        "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0123abcd.pem\n",
        "https://sns.eu-west-1.amazonaws.com\\.evil.test/SimpleNotificationService-0123abcd.pem",
        "https://sns.eu-west-1.amazonaws.com.cn/SimpleNotificationService-0123abcd.pem",
        "https://snsxeu-west-1.amazonaws.com/SimpleNotificationService-0123abcd.pem",
        "https://sns.eu-west-1.amazonaws.com/bucket/SimpleNotificationService-0123abcd.pem",
        " https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0123abcd.pem",
        "file:///etc/ssl/SimpleNotificationService-0123abcd.pem",
        "",
        None,
        ["https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0123abcd.pem"],
    ],
)
def test_a_forged_certificate_url_is_refused_and_never_asked_for(url: Any) -> None:
    envelope = signer().sign(notification(DELIVERY, SigningCertURL=url))

    assert verdict(envelope) == Refused("certificate URL is not Amazon's")


@pytest.mark.parametrize(
    ("topic", "url"),
    [
        (TOPIC, "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService.pem"),
        (
            "arn:aws-cn:sns:cn-north-1:111122223333:t",
            "https://sns.cn-north-1.amazonaws.com.cn/SimpleNotificationService-0a.pem",
        ),
        (
            "arn:aws-us-gov:sns:us-gov-west-1:111122223333:t",
            "https://sns.us-gov-west-1.amazonaws.com/SimpleNotificationService-0a.pem",
        ),
    ],
)
def test_a_certificate_that_is_not_at_hand_is_asked_for(topic: str, url: str) -> None:
    envelope = signer().sign(notification(DELIVERY, TopicArn=topic, SigningCertURL=url))
    source = replace(SOURCE, topic_arns=(topic,))

    needed = PROVIDER.verify(arrive(envelope), source, {})
    answered = PROVIDER.verify(arrive(envelope), source, {url: signer().certificate})

    assert needed == NeedKey(url)
    assert answered == Verified()


@pytest.mark.parametrize(
    ("days_from", "days_to"), [(-30, -1), (1, 30)], ids=["expired", "not yet valid"]
)
def test_a_certificate_out_of_its_dates_is_refused(days_from: int, days_to: int) -> None:
    stale = signer("stale", days_from=days_from, days_to=days_to)
    arrival = arrive(stale.sign(notification(DELIVERY)))

    fetched = PROVIDER.verify(arrival, SOURCE, {CERT_URL: stale.certificate})
    pinned = replace(SOURCE, public_keys=(stale.certificate.decode(),))

    assert fetched == Refused("certificate is not valid at this time")
    assert PROVIDER.verify(arrival, pinned, {}) == fetched


@pytest.mark.parametrize(
    "pem", [b"", b"<html>", b"-----BEGIN CERTIFICATE-----\nAAAA\n", b"\xff\x00"]
)
def test_a_broken_certificate_is_refused(pem: bytes) -> None:
    arrival = arrive(signer().sign(notification(DELIVERY)))

    result = PROVIDER.verify(arrival, SOURCE, {CERT_URL: pem})

    assert result == Refused("certificate is broken")


def test_pinned_keys_rotate_and_need_no_fetch() -> None:
    old, new = signer("old"), signer("new")
    source = replace(SOURCE, public_keys=(old.certificate.decode(), new.public_key.decode()))

    verdicts = [
        PROVIDER.verify(arrive(one.sign(notification(DELIVERY))), source, {})
        for one in (old, new, signer("mallory"))
    ]

    assert verdicts == [Verified(), Verified(), Refused("wrong signature")]


@pytest.mark.parametrize(
    ("late_s", "fresh"),
    [(8 * 3600, True), (8 * 3600 + 1, False), (-8 * 3600, True), (-28801, False)],
)
def test_the_publish_time_may_be_eight_hours_off(late_s: int, fresh: bool) -> None:  # noqa: FBT001
    published_ms = NOW_MS - 54_000  # 00:00:06
    envelope = signer().sign(notification(DELIVERY))

    result = verdict(envelope, now_ms=published_ms + late_s * 1000)

    assert result == (Verified() if fresh else Refused("stale timestamp"))


def test_a_window_of_zero_takes_any_age() -> None:
    envelope = signer().sign(notification(DELIVERY))

    result = verdict(envelope, replace(SOURCE, freshness_s=0), now_ms=NOW_MS + 86_400_000)

    assert result == Verified()


@pytest.mark.parametrize(
    "headers",
    [
        {"x-amz-sns-message-type": "SubscriptionConfirmation"},
        {"x-amz-sns-message-id": "another"},
        {"x-amz-sns-topic-arn": TOPIC + "2"},
    ],
)
def test_headers_that_contradict_the_body_are_refused(headers: dict[str, str]) -> None:
    envelope = signer().sign(notification(DELIVERY))

    assert verdict(envelope, headers=headers) == Refused("headers contradict the body")


def test_headers_that_agree_and_any_content_type_are_verified() -> None:
    headers = {
        "x-amz-sns-message-type": "Notification",
        "x-amz-sns-message-id": "0b0a-1",
        "x-amz-sns-topic-arn": TOPIC,
        "content-type": "text/plain; charset=UTF-8",
    }

    assert verdict(signer().sign(notification(DELIVERY)), headers=headers) == Verified()


RAW = {"x-amz-sns-rawdelivery": "true", "x-amz-sns-topic-arn": TOPIC}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (SOURCE, Refused("raw delivery is not signed")),
        (replace(SOURCE, basic=("u:p",)), Refused("raw delivery is not signed")),
        (replace(SOURCE, options={"raw_delivery": True}), Refused("raw delivery is not signed")),
        (replace(SOURCE, options={"raw_delivery": True}, basic=("u:p",)), Verified()),
        (replace(SOURCE, options={"raw_delivery": True}, tokens=("t",)), Verified()),
        (
            replace(SOURCE, options={"raw_delivery": True}, tokens=("t",), topic_arns=("x",)),
            Refused("topic is not allowed"),
        ),
    ],
)
def test_raw_delivery_needs_the_operators_word_and_another_proof(
    source: Source, expected: Verdict
) -> None:
    assert verdict(DELIVERY, source, RAW) == expected


def test_each_fault_of_a_source_is_named() -> None:
    faults = {
        "topic_arns": replace(SOURCE, topic_arns=()),
        "arn:aws:sns:REGION": replace(SOURCE, topic_arns=("arn:aws:sqs:eu-west-1:1:x",)),
        "signature_versions": replace(SOURCE, options={"signature_versions": ["9"]}),
        "public_keys": replace(SOURCE, public_keys=("no key",)),
        "raw_delivery": replace(SOURCE, options={"raw_delivery": True}),
    }

    for word, source in faults.items():
        assert word in (PROVIDER.check(source) or "")
    assert PROVIDER.check(SOURCE) is None


# Hostile bodies

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


def paths_of(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    steps: list[Any] = []
    if isinstance(value, dict):
        steps = list(value)
    elif isinstance(value, list):
        steps = list(range(len(value)))
    return [at, *(path for step in steps for path in paths_of(value[step], (*at, step)))]


@given(data=st.data(), put=JSON)
def test_a_mutated_message_is_read_or_refused_as_unreadable(data: st.DataObject, put: Any) -> None:
    message = json.loads(json.dumps(data.draw(st.sampled_from([case.value for case in CASES]))))
    path = data.draw(st.sampled_from(paths_of(message)[1:]))
    place = message
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = put

    try:
        events = parsed(notification(message))
    except ParseError:
        return

    for event in events.events:
        keys_of(SCOPE, event.identity)


@given(data=st.data(), put=JSON)
def test_a_mutated_envelope_is_never_verified_and_never_raises(
    data: st.DataObject, put: Any
) -> None:
    envelope = signer().sign(handshake())
    name = data.draw(st.sampled_from(sorted(envelope)))
    was, envelope[name] = envelope[name], put

    result = verdict(envelope)

    assert isinstance(result, Refused) or put == was
    with contextlib.suppress(ParseError):
        parsed(envelope)


@given(body=st.binary(max_size=200))
def test_any_bytes_are_refused_without_an_error(body: bytes) -> None:
    assert verdict(body) == Refused("body is not an SNS message")
