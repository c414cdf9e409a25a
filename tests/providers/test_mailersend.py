"""MailerSend: the ping, its two versions and what is told twice."""

import json
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from mailonce.core.arrivals.provider import Parsed, Probe, Verified
from mailonce.core.events.event import EventType
from mailonce.core.signatures import hmac_signature
from mailonce.errors import ParseError
from tests.providers.cases import arrival_of, find, keys, parse, provider_of, source_of
from tests.providers.signing import attach_mailersend, sign_body

PROVIDER = provider_of("mailersend")
SOURCE = source_of("mailersend", secrets=("s3cret",))
TEST_SECRET = "test_Am3L1GuOIc4blLUuHqAPxxwkZaJyEk8G"
PING = find("mailersend", "webhook_test").body


def signed(body: bytes, secret: str) -> Any:
    return attach_mailersend(body, "", sign_body(secret, body, ""))


class TestPing:
    def test_a_ping_signed_by_the_public_secret_is_answered(self) -> None:
        assert PROVIDER.probe(signed(PING, TEST_SECRET), SOURCE) == Probe()

    @pytest.mark.parametrize("secret", ["stranger", "s3cret"])
    def test_a_ping_signed_by_another_is_no_probe(self, secret: str) -> None:
        assert PROVIDER.probe(signed(PING, secret), SOURCE) is None
        assert PROVIDER.probe(arrival_of(PING), SOURCE) is None

    def test_a_ping_signed_by_the_sources_own_secret_says_nothing(self) -> None:
        arrival = signed(PING, "s3cret")

        assert PROVIDER.verify(arrival, SOURCE, {}) == Verified()
        assert PROVIDER.parse(arrival, SOURCE) == Parsed()

    @pytest.mark.parametrize(
        "body",
        [
            find("mailersend", "v2_hard_bounced").value,
            {"type": "webhook.test", "data": {"id": "1"}},
            {"type": "activity.sent", "message": "webhook.test"},
            {"type": "webhook.test", "message": "x" * 2_000},
            ["webhook.test"],
        ],
    )
    def test_the_public_secret_proves_nothing_but_pings(self, body: Any) -> None:
        arrival = signed(json.dumps(body).encode(), TEST_SECRET)

        assert PROVIDER.probe(arrival, SOURCE) is None
        assert PROVIDER.verify(arrival, SOURCE, {}) == hmac_signature.WRONG

    def test_a_ping_that_is_no_json_is_no_probe(self) -> None:
        assert PROVIDER.probe(signed(b"{webhook.test", TEST_SECRET), SOURCE) is None


class TestVersions:
    @pytest.mark.parametrize("word", ["delivered", "hard_bounced", "opened", "unsubscribed"])
    def test_an_activity_told_in_both_versions_is_one(self, word: str) -> None:
        first, second = (find("mailersend", f"{v}_{word}").value for v in ("v1", "v2"))

        assert keys("mailersend", first) == keys("mailersend", second)

    def test_the_documented_name_of_the_recipient_is_the_same_event(self) -> None:
        live, documented = (
            find("mailersend", name).value for name in ("v2_delivered", "v2_recipient_as_email")
        )

        assert keys("mailersend", live) == keys("mailersend", documented)

    def test_a_first_open_under_the_plain_ones_id_is_an_event_of_its_own(self) -> None:
        plain, first = (find("mailersend", f"v2_{w}").value for w in ("opened", "opened_unique"))

        [one], [other] = keys("mailersend", plain), keys("mailersend", first)

        assert plain["data"]["id"] == first["data"]["id"]
        assert one.key != other.key
        assert parse("mailersend", first).events[0].type is EventType.OTHER


class TestBodies:
    def test_the_escaped_slashes_are_part_of_what_is_signed(self) -> None:
        body = json.dumps(find("mailersend", "v2_clicked").value).replace("/", "\\/").encode()
        arrival = signed(body, "s3cret")

        unescaped = structs.replace(arrival, body=body.replace(b"\\/", b"/"))

        assert PROVIDER.verify(arrival, SOURCE, {}) == Verified()
        assert PROVIDER.verify(unescaped, SOURCE, {}) == hmac_signature.WRONG
        assert PROVIDER.parse(arrival, SOURCE).events[0].url == "https://example.com/a"

    @pytest.mark.parametrize("body", [b"{}", b"[]", b'{"type":5}'])
    def test_a_body_without_type_is_refused(self, body: bytes) -> None:
        with pytest.raises(ParseError):
            parse("mailersend", body)

    def test_an_option_of_another_type_is_named(self) -> None:
        source = replace(SOURCE, options={"count_first": 1})

        assert "'count_first'" in (PROVIDER.check(source) or "")
        assert PROVIDER.check(SOURCE) is None
