"""Whatever a post holds, its mails can be stored, and nobody gets one by accident."""

import json
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as replace_struct

from mailonce.core.arrivals.provider import Guard, Parsed, Refused, Verified
from mailonce.core.mail.incoming import FetchContent, IncomingMail, read_content, stored_content
from mailonce.core.reading.values import ADDRESS_CHARS_MAX
from mailonce.errors import ParseError
from mailonce.pipeline.parse import entry_of
from mailonce.testing import Post, make_simulator
from tests.providers.cases import arrival_of as plain_arrival_of
from tests.providers.cases import provider_of, source_of
from tests.providers.inbound.cases import MailCase, all_cases, each_provider
from tests.providers.inbound.hooks import NOW_S, WAYS, Way, arrival_of, make_mail, rig_of
from tests.providers.test_hostile import HOSTILE, _paths, _put, json_values

MAIL = make_mail()
every_way = pytest.mark.parametrize("way", WAYS, ids=str)
unhurried = settings(deadline=None)
JSON_CASES = [case for case in all_cases() if case.value is not None]
OTHER_CASES = [case for case in all_cases() if case.value is None]
NOTHING: list[Any] = ["", None, [], {}]
# Keys are made for the tests that need them, not as the module is imported.
SIGNING = {
    way
    for way in WAYS
    if (hook := provider_of(make_simulator(way.name).provider).inbound) and hook.signs_mail
}


def parse_or_refuse(case: MailCase, body: bytes) -> Parsed:
    try:
        parsed = case.parse(body)
    except ParseError:
        return Parsed()
    for mail in parsed.mails:
        assert_storable(mail)
    for element in parsed.unreadable:
        assert isinstance(element.raw, bytes)
    return parsed


def assert_storable(mail: IncomingMail) -> None:
    format_, stored = stored_content(mail.content)
    assert read_content(format_, stored) == mail.content
    if not isinstance(mail.content, FetchContent):
        assert b"\\u0000" not in stored or format_ == "mime"
    msgspec.json.encode(mail)
    envelope = mail.envelope
    assert envelope.origin in {"provider", "header", "absent"}
    assert (envelope.origin == "absent") == (not envelope.recipients)
    for address in (*envelope.recipients, *([envelope.mail_from] if envelope.mail_from else [])):
        assert address.isprintable() or max(address) >= "\x80"
        assert "@" in address
        assert len(address) <= ADDRESS_CHARS_MAX
    assert mail.delivery_id is None or 0 < len(mail.delivery_id) <= 256


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.long)])
@each_provider()
def test_any_field_may_be_missing_or_of_another_type(
    cases: Sequence[MailCase], step: int, subtests: pytest.Subtests
) -> None:
    for case in (one for one in cases if one.value is not None):
        with subtests.test(case.name):
            for number, path in enumerate(_paths(case.value)):
                for value in HOSTILE[number % step :: step]:
                    parse_or_refuse(case, json.dumps(_put(case.value, path, value)).encode())


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.long)])
@each_provider()
def test_a_body_may_end_anywhere(
    cases: Sequence[MailCase], step: int, subtests: pytest.Subtests
) -> None:
    for case in cases:
        with subtests.test(case.name):
            for end in range(0, len(case.body), step):
                parse_or_refuse(case, case.body[:end])


@unhurried
@given(data=st.data())
def test_fields_may_hold_anything(data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(JSON_CASES))
    body = case.value
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(list(_paths(body)) or [()]))
        body = _put(body, path, data.draw(json_values))

    parse_or_refuse(case, json.dumps(body).encode())


@unhurried
@given(data=st.data())
def test_bytes_of_a_form_may_be_any_others(data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(OTHER_CASES))
    body = bytearray(case.body)
    for _ in range(data.draw(st.integers(1, 5))):
        start = data.draw(st.integers(0, len(body)))
        end = data.draw(st.integers(start, min(len(body), start + 40)))
        body[start:end] = data.draw(st.binary(max_size=40) | st.sampled_from([b"\r\n--xYzZY"]))

    parse_or_refuse(case, bytes(body))


@each_provider()
def test_no_change_of_one_field_invents_a_recipient(cases: Sequence[MailCase]) -> None:
    """Without its envelope a mail is for nobody, however many addresses its headers have."""
    for case in (one for one in cases if not one.settings.get("options") and one.value is not None):
        honest = {one for mail in case.parse().mails for one in mail.envelope.recipients}
        for path in _paths(case.value):
            for value in NOTHING:
                parsed = parse_or_refuse(case, json.dumps(_put(case.value, path, value)).encode())

                given = {one for mail in parsed.mails for one in mail.envelope.recipients}
                assert given <= honest, (case, path)


@every_way
def test_a_changed_mail_is_refused_where_it_is_signed(way: Way) -> None:
    rig = rig_of(way)
    post = rig.post(MAIL)
    seeds = range(20) if _is_text(post) else ()
    harmed = [rig.simulator.damage(post, Random(seed)) for seed in seeds]
    cut = replace(post, body=post.body[:-1])

    verdicts = {type(rig.judge(one)) for one in (*harmed, cut)}

    if way in SIGNING:
        assert verdicts == {Refused}
    assert rig.judge(post) == Verified()


def _is_text(post: Post) -> bool:
    try:
        post.body.decode()
    except UnicodeError:
        return False
    return True


@every_way
def test_a_forged_envelope_is_refused_where_it_is_signed(way: Way) -> None:
    rig = rig_of(way)
    post = rig.post(MAIL)
    headers = {name: value.replace("In%2B7", "victim") for name, value in post.headers.items()}
    body = post.body
    for honest in (b"In+7@example.net", b"In%2B7@example.net", b"In%2B7%40example.net"):
        body = body.replace(honest, b"victim@example.net")
    if way.name in {"ses", "mailersend"}:
        body = body.replace(b"example.net", b"example.com")
    forged = replace(post, headers=headers, body=body)

    if way in SIGNING:
        assert forged != post
        assert isinstance(rig.judge(forged), Refused)


@every_way
def test_without_the_proof_nothing_is_taken(way: Way) -> None:
    rig = rig_of(way)
    post = rig.post(MAIL)
    bare = replace(post, headers={"Content-Type": post.headers["Content-Type"]})
    if way.name == "mailgun":
        bare = replace(bare, body=post.body.replace(b"signature", b"unsigned"))
    elif way.name == "ses":
        bare = replace(bare, body=post.body.replace(b'"Signature":"', b'"Signature":"AAAA'))

    assert isinstance(rig.judge(bare), Refused)


@pytest.mark.parametrize("way", [one for one in WAYS if one.name == "sendgrid"], ids=str)
def test_sendgrid_may_retry_a_mail_for_three_days(way: Way) -> None:
    rig = rig_of(way)
    (post,) = rig.posts(MAIL)
    late = arrival_of(post, now_s=NOW_S + 3 * 86_400)
    too_late = arrival_of(post, now_s=NOW_S + 3 * 86_400 + 601)

    verdicts = [rig.provider.verify(one, rig.source, {}) for one in (late, too_late)]

    assert verdicts == [Verified(), Refused("stale timestamp")]


def test_a_token_of_mailgun_is_good_for_one_mail() -> None:
    rig = rig_of(Way("mailgun", "mime"))
    arrival = arrival_of(rig.post(MAIL))
    other = replace_struct(arrival, body=arrival.body.replace(b"Bob", b"Eve"))

    # The signature does not cover the mail, so both are proven.
    verdicts = [rig.provider.verify(one, rig.source, {}) for one in (arrival, other)]
    parsed = [rig.provider.parse(one, rig.source) for one in (arrival, other)]
    entries = [
        entry_of(rig.provider, rig.source, one, read, new_id=lambda: bytes(16))
        for one, read in zip((arrival, other), parsed, strict=True)
    ]

    assert verdicts == [Verified(), Verified()]
    assert parsed[0].guard == parsed[1].guard
    assert isinstance(parsed[0].guard, Guard)
    assert entries[0].guard is not None
    assert entries[1].guard is not None
    # One key with two fingerprints: the ledger takes the first and refuses the second.
    assert entries[0].guard[0] == entries[1].guard[0]
    assert entries[0].guard[1] != entries[1].guard[1]


@pytest.mark.parametrize(
    "url",
    [
        "http://storage-us-east4.api.mailgun.net/v3/domains/x/messages/m",
        "https://api.mailgun.net.example.com/v3/domains/x/messages/m",
        "https://api.mailgun.net@example.com/v3/domains/x/messages/m",
        "https://example.com/https://api.mailgun.net/v3/domains/x/messages/m",
        "https://api.mailgun.net/v3/domains/x/messages/../../../v3/routes",
        "https://api.mailgun.net/v3/domains/x/messages/m?x=https://example.com",
        "https://api.mailgun.net:8443/v3/domains/x/messages/m",
        "https://169.254.169.254/latest/meta-data",
        "",
    ],
)
def test_mail_is_fetched_from_mailgun_alone(url: str) -> None:
    body = urlencode(
        {"recipient": "in@x.net", "sender": "b@x", "message-url": url, "body-plain": "x"}
    ).encode()
    headers = {"Content-Type": "application/x-www-form-urlencoded"}

    with pytest.raises(ParseError):
        provider_of("mailgun").parse(plain_arrival_of(body, headers), source_of("mailgun"))


@pytest.mark.parametrize(
    ("bucket", "key"),
    [
        ("my-mail", ""),
        ("my-mail", "../other/secret"),
        ("my-mail", "a/./b"),
        ("my-mail", "k" * 1_025),
        ("my-mail", "a\x00"),
        ("my.mail@example.com", "k"),
        ("MY-MAIL", "k"),
        ("x/y", "k"),
    ],
)
def test_mail_is_fetched_from_a_bucket_and_a_key_alone(bucket: str, key: str) -> None:
    message = {
        "notificationType": "Received",
        "mail": {"messageId": "m1", "source": "b@x"},
        "receipt": {
            "recipients": ["in@x.net"],
            "action": {"type": "S3", "bucketName": bucket, "objectKey": key},
        },
    }
    headers = {"x-amz-sns-rawdelivery": "true"}

    with pytest.raises(ParseError):
        provider_of("ses").parse(
            plain_arrival_of(json.dumps(message).encode(), headers), source_of("ses")
        )
