"""What each provider's answers mean: no more is believed than is certain."""

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mailonce.core.sends.sending import (
    Accepted,
    Found,
    LookupOutcome,
    NotFound,
    NotSent,
    ProviderAnswer,
    SendOutcome,
    TryAgain,
    Unknown,
)
from mailonce.providers import sending
from tests.core.sends.mails import CORRELATION, NOON_MS
from tests.providers.sending.golden import FACTS, sending_of

HERE = Path(__file__).parent / "answers"
NAMES = [name for name in sending.names() if name != "smtp"]
HITS = [
    (name, case)
    for name in NAMES
    for case in tomllib.loads((HERE / f"{name}.toml").read_text()).get("lookup", [])
    if case["outcome"] == "found"
]


def cases(name: str, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tomllib.loads((HERE / f"{name}.toml").read_text()).get(table, [])
    return found


def answer_of(case: dict[str, Any]) -> ProviderAnswer:
    return ProviderAnswer(
        status=case["status"],
        headers=case.get("headers", {}),
        body=case.get("body", "").encode(),
        is_whole=not case.get("cut", False),
        received_ms=case.get("received_ms", NOON_MS),
    )


def shown(outcome: SendOutcome | LookupOutcome) -> dict[str, Any]:
    match outcome:
        case Accepted(message_id=id_):
            return {"outcome": "accepted", "id": id_}
        case NotSent(fault=fault):
            return {"outcome": "not_sent", "fault": str(fault)}
        case TryAgain(retry_after_ms=wait_ms):
            return {"outcome": "try_again", "wait_ms": wait_ms}
        case Unknown(retry_after_ms=wait_ms):
            return {"outcome": "unknown", "wait_ms": wait_ms}
        case Found(message_id=id_):
            return {"outcome": "found", "id": id_}
        case NotFound():
            return {"outcome": "not_found"}


DEFAULTS: dict[str, dict[str, Any]] = {
    "accepted": {"id": None},
    "not_sent": {"fault": "message"},
    "try_again": {"wait_ms": None},
    "unknown": {"wait_ms": None},
    "found": {"id": None},
    "not_found": {},
}


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_is_classed_by_what_is_certain(name: str, subtests: pytest.Subtests) -> None:
    read = sending_of(name).read_answer
    assert read is not None
    own = cases(name, "answer")
    assert {case["outcome"] for case in own} >= {"accepted", "not_sent"}
    for case in (*own, *cases("common", "answer")):
        with subtests.test(case["name"]):
            outcome = read(answer_of(case))

            expected = {"outcome": case["outcome"], **DEFAULTS[case["outcome"]]}
            expected |= {field: case[field] for field in expected if field in case}
            assert shown(outcome) == expected
            if not isinstance(outcome, Accepted):
                assert case.get("reason", "") in outcome.reason
                assert "example.net" not in outcome.reason


@pytest.mark.parametrize("name", NAMES)
def test_no_answer_that_was_cut_is_a_refusal(name: str, subtests: pytest.Subtests) -> None:
    """A 2xx of which every piece may be missing: never "not sent", unless its text says so."""
    read = sending_of(name).read_answer
    assert read is not None
    for case in cases(name, "answer"):
        if not 200 <= case["status"] < 300:
            continue
        body = case.get("body", "").encode()
        with subtests.test(case["name"]):
            for end in range(len(body)):
                answer = answer_of({**case, "body": body[:end].decode(), "cut": True})

                assert isinstance(read(answer), Accepted | Unknown)


def variants(value: Any) -> Iterator[Any]:
    """Give a value with each part of it taken out, or replaced by one of another type."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield {other: one for other, one in value.items() if other != name}
            for variant in variants(inner):
                yield {**value, name: variant}
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield value[:place] + value[place + 1 :]
            for variant in variants(inner):
                yield [*value[:place], variant, *value[place + 1 :]]
    yield from (None, [], {}, [[]], {"a": {}}, True, 7, -1.5, "", "x", 2**70)


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_of_other_types_is_read_without_an_error(name: str) -> None:
    found = sending_of(name)
    assert found.read_answer is not None
    for case in (*cases(name, "answer"), *cases(name, "lookup")):
        try:
            body = json.loads(case.get("body", ""))
        except ValueError:
            continue
        for variant in variants(body):
            answer = answer_of({**case, "body": json.dumps(variant)})

            outcome = found.read_answer(answer)

            assert isinstance(outcome, Accepted | NotSent | TryAgain | Unknown)
            if found.read_lookup is not None:
                found.read_lookup(answer, CORRELATION, FACTS)


@pytest.mark.parametrize("name", NAMES)
def test_a_success_that_says_nothing_known_is_no_refusal(name: str) -> None:
    """Whoever answers 200 with other words may well have the mail."""
    read = sending_of(name).read_answer
    assert read is not None
    bodies: list[Any] = [{}, [], {"a": 1}, [{}], {"data": {}}, {"status": "new"}, {"Messages": []}]
    for body in bodies:
        outcome = read(answer_of({"status": 200, "body": json.dumps(body)}))

        assert isinstance(outcome, Unknown), body


@pytest.mark.parametrize("name", [name for name in NAMES if sending_of(name).read_lookup])
def test_a_lookup_proves_by_presence_alone(name: str, subtests: pytest.Subtests) -> None:
    read = sending_of(name).read_lookup
    assert read is not None
    own = cases(name, "lookup")
    assert {case["outcome"] for case in own} == {"found", "not_found"}
    for case in own:
        with subtests.test(case["name"]):
            outcome = read(answer_of(case), CORRELATION, FACTS)

            expected = {"outcome": case["outcome"], **DEFAULTS[case["outcome"]]}
            expected |= {field: case[field] for field in expected if field in case}
            assert shown(outcome) == expected


@pytest.mark.parametrize(("name", "case"), HITS, ids=[f"{n}-{c['name']}" for n, c in HITS])
def test_a_lookup_that_failed_proves_nothing(name: str, case: dict[str, Any]) -> None:
    read = sending_of(name).read_lookup
    assert read is not None

    for change in ({"status": 500}, {"status": 401}, {"cut": True}, {"body": "<html>"}):
        assert isinstance(read(answer_of({**case, **change}), CORRELATION, FACTS), Unknown)
