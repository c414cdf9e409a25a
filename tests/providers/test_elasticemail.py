"""Elastic Email: queries and forms, the probe, and tokens that stand in the URL."""

from urllib.parse import parse_qsl, urlencode

import pytest
from msgspec.structs import replace

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Probe
from mailonce.core.events.key import EventKeys, keys_of
from mailonce.core.reading.form import with_query
from mailonce.core.signatures import proof
from mailonce.errors import ParseError
from mailonce.providers.elasticemail import PROVIDER
from tests.providers.cases import SCOPE, arrival_of, cases_of, find, source_of

CASES = cases_of("elasticemail")
SOURCE = source_of("elasticemail", tokens=("s3cret",))


def get(query: str, method: str = "GET") -> Arrival:
    return replace(arrival_of(b""), method=method, query=query)


def key(body: bytes) -> EventKeys:
    [event] = PROVIDER.parse(arrival_of(body, CASES[0].headers), SOURCE).events
    return keys_of(SCOPE, event.identity)


def changed(name: str, **fields: str) -> bytes:
    case = find("elasticemail", name)
    return urlencode({**dict(parse_qsl(case.body.decode())), **fields}).encode()


class TestQueries:
    def test_a_get_means_the_same_as_a_post(self, subtests: pytest.Subtests) -> None:
        for case in CASES:
            with subtests.test(case.name):
                arrival = get("token=s3cret&" + case.body.decode())

                posted = PROVIDER.parse(arrival_of(case.body, case.headers), SOURCE)

                assert PROVIDER.parse(arrival, SOURCE) == posted
                assert PROVIDER.probe(arrival, SOURCE) is None

    def test_what_is_kept_of_a_get_can_be_read_again_and_holds_no_token(
        self, subtests: pytest.Subtests
    ) -> None:
        for case in CASES:
            with subtests.test(case.name):
                arrival = get(case.body.decode() + "&token=s3cret")

                kept = with_query(arrival)

                assert kept.body == case.body
                assert kept.method == "POST"
                again = arrival_of(kept.body, {"content-type": kept.headers["content-type"]})
                assert PROVIDER.parse(again, SOURCE) == PROVIDER.parse(arrival, SOURCE)

    def test_fields_of_query_and_form_are_merged(self) -> None:
        form = arrival_of(b"status=Sent&to=ann%40example.net", CASES[0].headers)

        [event] = PROVIDER.parse(replace(form, query="transaction=tx-1&to=x"), SOURCE).events

        assert (event.message_id, event.recipient) == ("tx-1", "ann@example.net")

    def test_a_post_that_is_no_form_is_a_parse_error(self) -> None:
        with pytest.raises(ParseError):
            PROVIDER.parse(arrival_of(b'{"status":"Sent"}'), SOURCE)


class TestProbes:
    @pytest.mark.parametrize("method", ["GET", "HEAD"])
    @pytest.mark.parametrize("query", ["", "token=s3cret", "token=wrong", "x=1&&y"])
    def test_a_request_without_fields_is_a_probe(self, method: str, query: str) -> None:
        assert PROVIDER.probe(get(query, method), SOURCE) == Probe()

    @pytest.mark.parametrize("query", ["status=Sent", "TO=ann%40example.net", "%73tatus=Sent"])
    def test_a_request_with_a_field_of_an_event_is_none(self, query: str) -> None:
        assert PROVIDER.probe(get(query), SOURCE) is None

    def test_no_post_is_a_probe(self) -> None:
        assert PROVIDER.probe(arrival_of(b""), SOURCE) is None


class TestTokens:
    def test_a_token_in_the_query_proves_an_arrival(self) -> None:
        right = proof.check(SOURCE, get("status=Sent&token=s3cret"))
        wrong = proof.check(SOURCE, get("status=Sent&token=S3cret"))
        missing = proof.check(SOURCE, get("status=Sent&token&mytoken=s3cret"))

        assert right is None
        assert wrong == missing == proof.WRONG_TOKEN

    def test_a_token_in_the_query_may_be_escaped(self) -> None:
        source = source_of("elasticemail", tokens=("s3+c&t",))

        assert proof.check(source, get("token=s3%2Bc%26t")) is None

    def test_a_token_in_the_path_goes_first(self) -> None:
        arrival = replace(get("token=s3cret"), token="wrong")

        assert proof.check(SOURCE, arrival) == proof.WRONG_TOKEN


class TestCopies:
    def test_addresses_are_compared_without_their_case(self) -> None:
        assert key(changed("sent")) == key(changed("sent", to="ANN@example.net"))

    @pytest.mark.parametrize(
        "fields",
        [
            {"to": "bob@example.net"},
            {"date": "1/1/2026 12:00:06 AM"},
            {"target": "https://example.com/b"},
            {"category": "Spam"},
            {"status": "Opened"},
            {"transaction": "tx-2"},
            {"messageid": "another"},
        ],
    )
    def test_events_that_look_alike_have_different_keys(self, fields: dict[str, str]) -> None:
        assert key(changed("clicked")).key != key(changed("clicked", **fields)).key

    def test_other_content_under_one_key_has_another_fingerprint(self) -> None:
        one, other = key(changed("clicked")), key(changed("clicked", postback="78"))

        assert one.key == other.key
        assert one.fingerprint != other.fingerprint


@pytest.mark.parametrize(
    ("date", "occurred_ms"),
    [
        ("1/1/2026 12:00:05 AM", 1_767_225_605_000),
        ("01/01/2026 00:00:05", 1_767_225_605_000),
        ("1/1/2026 12:00:05 PM", 1_767_268_805_000),
        ("1/1/2026 1:00:05 PM", 1_767_272_405_000),
        ("2/1/2026 12:00:05 AM", 1_769_904_005_000),
        ("13/1/2026 12:00:05 AM", 1_768_262_405_000),
        ("2026-01-01 00:00:05", 1_767_225_605_000),
        ("2026-01-01T00:00:05Z", 1_767_225_605_000),
        ("31/31/2026 12:00:05 AM", None),
        ("soon", None),
        ("", None),
    ],
)
def test_a_date_is_read_as_elastic_email_writes_it(date: str, occurred_ms: int | None) -> None:
    [event] = PROVIDER.parse(get(urlencode({"status": "Sent", "date": date})), SOURCE).events

    assert event.occurred_ms == occurred_ms
