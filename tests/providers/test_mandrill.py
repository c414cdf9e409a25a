"""Mandrill: probes, the form around the events, and the URL that is signed."""

import json
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import pytest
from msgspec import structs

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Probe, Refused, Verified
from mailonce.core.events.key import WHOLE, Identity, keys_of
from mailonce.core.signatures import hmac_signature
from mailonce.errors import ParseError
from tests.providers.cases import SCOPE, arrival_of, find, keys, parse, provider_of, source_of
from tests.providers.signing import (
    MANDRILL_URL,
    attach_mandrill,
    sign_mandrill,
)

PROVIDER = provider_of("mandrill")
SOURCE = source_of("mandrill", secrets=("mk",), options={"url": MANDRILL_URL})


def form_of(elements: Any) -> bytes:
    return urlencode({"mandrill_events": json.dumps(elements)}).encode()


def arrive(body: bytes, secret: str = "mk") -> Arrival:
    return attach_mandrill(body, "", sign_mandrill(secret, body, ""))


class TestEventsWithoutAnId:
    """Some events carry their id within the message alone."""

    CASE = find("mandrill", "open_without_id")

    def test_a_copy_whose_message_has_grown_is_a_copy(self) -> None:
        [element] = self.CASE.value
        opens = [{"ts": 1767225605}, {"ts": 1767225606}]
        grown = {**element, "msg": {**element["msg"], "opens": opens, "state": "soft-bounced"}}

        [one], [other] = (keys("mandrill", form_of([each])) for each in (element, grown))

        assert (one.key, one.fingerprint) == (other.key, other.fingerprint)

    def test_a_retry_is_known_by_the_key_that_an_older_version_claimed(self) -> None:
        [element] = self.CASE.value
        claimed = keys_of(SCOPE, Identity(WHOLE, element))

        [known] = keys("mandrill", form_of([element]))

        assert known.previous is not None
        alias = known.previous.alias
        assert (alias.key, alias.fingerprint) == (claimed.key, claimed.fingerprint)


class TestProbes:
    @pytest.mark.parametrize("body", [b"mandrill_events=%5B%5D", b"mandrill_events=[]"])
    def test_an_empty_batch_is_answered_whoever_signed_it(self, body: bytes) -> None:
        unsigned, by_a_test_key = arrival_of(body), arrive(body, "test-webhook")

        assert PROVIDER.probe(unsigned, SOURCE) == Probe()
        assert PROVIDER.probe(by_a_test_key, SOURCE) == Probe()

    def test_a_head_is_answered_before_any_key_is_known(self) -> None:
        head = structs.replace(arrival_of(b""), method="HEAD")

        assert PROVIDER.probe(head, source_of("mandrill")) == Probe()

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"mandrill_events=",
            b"mandrill_events=%5B%7B%7D%5D",
            b"mandrill_events=%5B%5D&mandrill_events=%5B%7B%7D%5D",
            b"[]",
            form_of(find("mandrill", "send").value),
        ],
    )
    def test_nothing_else_is_a_probe(self, body: bytes) -> None:
        assert PROVIDER.probe(arrival_of(body), SOURCE) is None

    @pytest.mark.parametrize("method", ["GET", "PUT", "OPTIONS"])
    def test_no_other_method_probes(self, method: str) -> None:
        arrival = structs.replace(arrival_of(b"mandrill_events=%5B%5D"), method=method)

        assert PROVIDER.probe(arrival, SOURCE) is None


class TestSignedUrl:
    @pytest.mark.parametrize(
        "url",
        [
            "https://h.example/m",
            "http://u:p@h.example/m",
            "https://u:p@h.example/m/",
            "https://u:p@h.example/m?a=1",
        ],
    )
    def test_a_url_that_is_written_differently_is_another(self, url: str) -> None:
        arrival = arrive(form_of([{"event": "send"}]))

        verdict = PROVIDER.verify(arrival, replace(SOURCE, options={"url": url}), {})

        assert verdict == hmac_signature.WRONG

    def test_letters_beyond_ascii_are_signed_as_decoded(self) -> None:
        arrival = arrive("mandrill_events=%5B%22caf%C3%A9+%2B+é%22%5D".encode())

        assert PROVIDER.verify(arrival, SOURCE, {}) == Verified()

    def test_every_field_is_signed_and_sorted_by_name(self) -> None:
        body = b"mandrill_events=%5B%5D&a=1"
        in_order = sign_mandrill("mk", b"a=1&mandrill_events=%5B%5D", "")

        assert PROVIDER.verify(attach_mandrill(body, "", in_order), SOURCE, {}) == Verified()
        assert PROVIDER.verify(attach_mandrill(body + b"0", "", in_order), SOURCE, {}) == (
            hmac_signature.WRONG
        )

    @pytest.mark.parametrize("options", [{}, {"url": ""}, {"url": 5}])
    def test_without_a_url_nobody_is_believed(self, options: dict[str, Any]) -> None:
        verdict = PROVIDER.verify(arrive(form_of([])), replace(SOURCE, options=options), {})

        assert verdict == Refused("source is not configured")

    def test_a_form_of_too_many_fields_is_refused(self) -> None:
        arrival = attach_mandrill(b"a=1&" * 2_000, "", "+S63MR2IEIh9T2/bxU9M9H2NdVk=")

        assert PROVIDER.verify(arrival, SOURCE, {}) == hmac_signature.WRONG

    @pytest.mark.parametrize(
        ("options", "word"),
        [
            ({}, "'url'"),
            ({"url": "h.example/m"}, "'url'"),
            ({"url": ["https://h.example/m"]}, "'url'"),
            ({"url": MANDRILL_URL, "blocked_words": "spam"}, "'blocked_words'"),
            ({"url": MANDRILL_URL, "blocked_words": [""]}, "'blocked_words'"),
        ],
    )
    def test_each_fault_of_a_source_is_named(self, options: dict[str, Any], word: str) -> None:
        assert word in (PROVIDER.check(replace(SOURCE, options=options)) or "")

    def test_a_source_with_its_url_can_work(self) -> None:
        assert PROVIDER.check(SOURCE) is None


class TestBatches:
    def test_an_unreadable_element_costs_no_other(self) -> None:
        batch = b'[{"event":"send","_id":"m1"},5,{broken},{"event":"open","_id":"m1"}]'

        parsed = parse("mandrill", urlencode({"mandrill_events": batch}).encode())

        assert len(parsed.events) == 2
        assert [(one.position, one.raw) for one in parsed.unreadable] == [
            (1, b"5"),
            (2, b"{broken}"),
        ]

    def test_an_element_that_was_set_aside_can_be_read_alone(self) -> None:
        elements = find("mandrill", "send").value

        assert keys("mandrill", elements) == keys("mandrill", form_of(elements))

    @pytest.mark.parametrize("body", [b"other=1", b"mandrill_events", b"mandrill_events=no"])
    def test_a_form_without_events_is_refused(self, body: bytes) -> None:
        with pytest.raises(ParseError):
            parse("mandrill", body)

    def test_a_retry_after_the_message_lived_on_is_a_copy(self) -> None:
        [element] = find("mandrill", "click").value
        later = {**element["msg"], "state": "bounced", "opens": [1, 2], "clicks": [1, 2, 3]}

        one, other = keys("mandrill", [element, {**element, "msg": later}])

        assert one == other

    def test_an_address_added_to_a_list_twice_without_time_is_added_twice(self) -> None:
        [element] = find("mandrill", "sync_without_time").value
        again = {**element, "reject": {**element["reject"], "created_at": "2026-02-01 00:00:00"}}

        one, other = keys("mandrill", [element, again])

        assert one.key != other.key
