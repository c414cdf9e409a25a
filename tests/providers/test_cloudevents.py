"""CloudEvents: three modes of one event, and who may ask whether they may send."""

import json
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Probe, Verified
from mailonce.core.signatures import hmac_signature as schemes
from mailonce.core.signatures import proof
from mailonce.errors import ConfigError, ParseError
from mailonce.manage.sources import check_source
from tests.providers.cases import arrival_of, cases_of, find, keys, parse, provider_of
from tests.providers.cases import source_of as plain_source
from tests.providers.signing import attach_standard, sign_standard, standard_secret

PROVIDER = provider_of("cloudevents")
SOURCE = plain_source(
    "cloudevents", tokens=("t",), options={"allowed_origins": ["eventgrid.azure.net"]}
)
STRUCTURED = {"Content-Type": "application/cloudevents+json"}
BATCH = {"Content-Type": "application/cloudevents-batch+json"}
EVENT = find("cloudevents", "structured").value


def test_the_options_of_each_golden_case_are_accepted(subtests: pytest.Subtests) -> None:
    for case in cases_of("cloudevents"):
        with subtests.test(case.name):
            assert PROVIDER.check(replace(SOURCE, options=case.options)) is None


# How copies are known


def test_an_event_has_one_key_in_every_mode() -> None:
    binary = find("cloudevents", "binary")

    [structured] = keys("cloudevents", EVENT, STRUCTURED)
    [batched] = keys("cloudevents", [EVENT], BATCH)
    [bound] = keys("cloudevents", binary.value, binary.headers)

    assert structured == batched == bound


def test_an_id_is_one_of_its_source_only() -> None:
    events = [EVENT, {**EVENT, "source": "//mail.example/us"}, {**EVENT, "id": "e2"}]

    event_keys = keys("cloudevents", events, BATCH)

    assert len({one.key for one in event_keys}) == 3


def test_a_configured_event_id_goes_before_source_and_id() -> None:
    options = {"event_id": "/data/message_id"}

    [one], [same] = (
        keys("cloudevents", event, STRUCTURED, **options)
        for event in (EVENT, {**EVENT, "id": "e2", "source": "elsewhere"})
    )

    assert one == same


# What is read


def test_one_bad_element_of_a_batch_does_not_cost_the_others() -> None:
    nameless = {**EVENT, "id": ""}
    body = (
        b"["
        + b",".join([b"{broken}", json.dumps(nameless).encode(), b"7", json.dumps(EVENT).encode()])
        + b"]"
    )

    parsed = parse("cloudevents", body, BATCH)

    assert [event.message_id for event in parsed.events] == ["m1"]
    assert [one.position for one in parsed.unreadable] == [0, 1, 2]


@pytest.mark.parametrize("name", ["id", "source", "type", "specversion"])
@pytest.mark.parametrize("value", [None, "", 5])
def test_an_event_without_a_required_attribute_is_none(name: str, value: Any) -> None:
    with pytest.raises(ParseError, match="a CloudEvent"):
        parse("cloudevents", {**EVENT, name: value}, STRUCTURED)


def test_a_format_other_than_json_is_a_parse_error() -> None:
    with pytest.raises(ParseError):
        parse("cloudevents", b"\x0a\x02e1", {"Content-Type": "application/cloudevents+protobuf"})


def test_a_body_of_binary_mode_that_is_called_json_must_be_json() -> None:
    headers = find("cloudevents", "binary").headers

    with pytest.raises(ParseError):
        parse("cloudevents", b"{", headers)


@pytest.mark.parametrize("data", ["%%%", "bm8ganNvbg==", 5, None])
def test_encoded_data_that_cannot_be_read_costs_only_what_is_in_it(data: Any) -> None:
    event = {name: value for name, value in EVENT.items() if name != "data"}

    [parsed] = parse("cloudevents", {**event, "data_base64": data}, STRUCTURED).events

    assert (parsed.type, parsed.message_id) == ("delivered", "")


def test_a_structured_event_is_shown_as_it_came() -> None:
    case = find("cloudevents", "structured_base64")

    [event] = parse("cloudevents", case.value, case.headers).events

    assert event.raw == case.value


# Who may speak


def ask(origin: str | None, method: str = "OPTIONS", **options: Any) -> Probe | None:
    headers = {} if origin is None else {"webhook-request-origin": origin}
    headers |= {
        "webhook-request-rate": "120",
        "webhook-request-callback": "https://evil.example/ok",
    }
    arrival = Arrival(method=method, headers=headers, body=b"", now_ms=0)
    source = replace(SOURCE, options=options) if options else SOURCE
    return PROVIDER.probe(arrival, source)


@pytest.mark.parametrize("origin", ["eventgrid.azure.net", "EventGrid.Azure.net"])
def test_a_listed_origin_may_send(origin: str) -> None:
    answer = ask(origin)

    assert answer == Probe(
        200,
        {
            "Allow": "POST",
            "WebHook-Allowed-Origin": "eventgrid.azure.net",
            "WebHook-Allowed-Rate": "*",
        },
    )


@pytest.mark.parametrize("origin", [None, "", "*", "evil.example", "eventgrid.azure.net.evil"])
def test_any_other_origin_is_not_answered(origin: str | None) -> None:
    assert ask(origin) is None


@pytest.mark.parametrize("origins", [None, [], "eventgrid.azure.net.evil", [5, None], {}])
def test_a_source_without_origins_answers_nobody(origins: Any) -> None:
    assert ask("eventgrid.azure.net", allowed_origins=origins) is None
    assert ask("", allowed_origins=origins) is None


@pytest.mark.parametrize("method", ["POST", "GET", "HEAD"])
def test_only_options_asks(method: str) -> None:
    assert ask("eventgrid.azure.net", method) is None


def test_a_source_with_a_secret_demands_the_standard_webhooks_signature() -> None:
    body = json.dumps(EVENT).encode()
    signature = sign_standard("old", body, "1767225600")
    source = replace(SOURCE, secrets=(standard_secret("old"),))

    verdicts = [
        PROVIDER.verify(attach_standard(body, "1767225600", signature), source, {}),
        PROVIDER.verify(attach_standard(body + b" ", "1767225600", signature), source, {}),
        PROVIDER.verify(arrival_of(body), source, {}),
        PROVIDER.verify(arrival_of(body), SOURCE, {}),
    ]

    assert verdicts == [Verified(), schemes.WRONG, schemes.MISSING, Verified()]


@pytest.mark.parametrize(
    ("query", "headers", "refused"),
    [
        ("access_token=t", {}, None),
        ("a=b&access_token=t", {}, None),
        ("", {"authorization": "Bearer t"}, None),
        ("access_token=u", {}, proof.WRONG_TOKEN),
        ("access_token=t", {"authorization": "Bearer u"}, proof.WRONG_TOKEN),
        ("xaccess_token=t", {}, proof.WRONG_TOKEN),
        ("", {}, proof.WRONG_TOKEN),
    ],
)
def test_the_token_may_stand_in_the_header_or_else_in_the_url(
    query: str, headers: dict[str, str], refused: object
) -> None:
    arrival = structs.replace(arrival_of(b"{}", headers), query=query)

    assert proof.check(SOURCE, arrival) == refused


# Settings


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"options": {"allowed_origins": "eventgrid.azure.net"}}, "'allowed_origins'"),
        ({"options": {"allowed_origins": [5]}}, "'allowed_origins'"),
        ({"options": {"words": {"x": "vanished"}}}, "'vanished'"),
        ({"options": {"recipient": "subject"}}, "'recipient'"),
        ({"secrets": ("not base64!",)}, "'secret'"),
    ],
)
def test_each_fault_of_a_source_is_named(change: dict[str, Any], word: str) -> None:
    assert word in (PROVIDER.check(replace(SOURCE, **change)) or "")


def test_a_source_without_any_proof_is_no_source() -> None:
    with pytest.raises(ConfigError, match="signs nothing"):
        check_source(replace(SOURCE, tokens=()), window_days=35)

    check_source(SOURCE, window_days=35)
