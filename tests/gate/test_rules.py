"""The pure rules: keys, fingerprints, decisions, answers; and the seed's own function."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from hashlib import sha256
from typing import Any, cast
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mailonce
from mailonce.errors import ConfigError
from mailonce.gate import Policy, Request, Response
from mailonce.gate.rules.answer import Outcome, answer
from mailonce.gate.rules.decision import (
    Claim,
    ClaimRecord,
    Conflict,
    Replay,
    Running,
    is_final,
    is_success,
    judge,
)
from mailonce.gate.rules.fingerprint import canonical, differing, of_bytes, of_json
from mailonce.gate.rules.keys import BadKey, key_of

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def headers(*pairs: tuple[str, str]) -> Request:
    return Request(headers=pairs)


def test_the_seeds_key_is_recomputed() -> None:
    expected = "71df9750ff2fff46c2fb789a91c476a19e7240c81a14dc87c582733561ea3052"

    assert mailonce.delivery_key("<m1@x>", "r1") == expected
    for message_id, route_id in (("", "r1"), ("m", "  "), (None, "r1"), ("m", 7)):
        with pytest.raises(ValueError, match="is required"):
            mailonce.delivery_key(message_id, route_id)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ("abc", "abc"),
        ("  abc  ", "abc"),
        ("a b", "a b"),
        ('"abc"', "abc"),
        ('"a\\"b\\\\c"', 'a"b\\c'),
        ('"a,b"', "a,b"),
    ],
)
def test_a_key_is_read(value: str, key: str) -> None:
    assert key_of(headers(("Idempotency-Key", value)), chars_max=255) == key


@pytest.mark.parametrize(
    "value",
    [
        '"abc',
        'abc"',
        '"a"b"',
        '"a\\x"',
        '"abc";p=1',
        "a,b",
        '"a","a"',
        "é",
        '"é"',
        "a\tb",
        '""',
        "x" * 256,
    ],
)
def test_a_key_that_is_not_plain_is_refused(value: str) -> None:
    assert isinstance(key_of(headers(("Idempotency-Key", value)), chars_max=255), BadKey)


def test_a_key_said_twice_must_be_the_same() -> None:
    twice = headers(("X-Idempotency-Key", "a"), ("idempotency-key", '"a"'))
    apart = headers(("X-Idempotency-Key", "a"), ("x-idempotency-key", "b"))

    assert key_of(twice, chars_max=255) == "a"
    assert isinstance(key_of(apart, chars_max=255), BadKey)


def test_a_key_function_is_held_to_the_same_rules() -> None:
    policy = Policy(key=lambda request: request.body.decode())

    assert isinstance(policy.claim_of(Request(body=b"abc")), Claim)
    for bad in (b"", b"  ", b"a\x00b", b"x" * 300):
        assert isinstance(policy.claim_of(Request(body=bad)), BadKey), bad


def test_the_canonical_json_is_the_seeds() -> None:
    body = b'{ "z": {"y": "", "k": "v"}, "b": [1, 2.50, null, true], "a": "\\u00e4" }'
    text = '{"a":"ä","b":[1,2.5,null,true],"z":{"k":"v","y":""}}'

    whole, _ = of_json(body)

    assert canonical(json.loads(body)) == text.encode()
    assert whole == "4c44614eb395091fd20e0af2d52c0bc33d58190ad718c03a5018598090d3bc97"


@given(JSON)
def test_equal_json_has_one_fingerprint_however_it_is_written(value: object) -> None:
    def fingerprint(**style: object) -> str:
        return of_json(json.dumps(value, **style).encode("utf-8", "surrogatepass"))[0]  # type: ignore[arg-type]

    assert fingerprint() == fingerprint(indent=2) == fingerprint(sort_keys=True)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"NaN",
        b'{"a": 1e999}',
        b'"\\ud800"',
        b"[" * 100_000,
        b"\xff",
        b'{"a": 9007199254740993.0}',
        b'{"a": 0.10000000000000000555}',
        b'{"a": 1e-400}',
        b'{"a": 0.' + b"1" * 500 + b"}",
        b'{"a": [{"b": 1, "b": 2}]}',
    ],
)
def test_what_is_no_plain_json_is_compared_as_bytes(body: bytes) -> None:
    assert of_json(body) == (of_bytes(body), {})
    assert of_bytes(body) == sha256(body).hexdigest()


def test_the_fields_that_differ_are_named_and_their_values_are_not_kept() -> None:
    _, ours = of_json(b'{"same": 1, "changed": "secret-a", "gone": 1}')
    _, theirs = of_json(b'{"same": 1.0, "changed": "secret-b", "new": 1}')

    assert differing(ours, theirs) == ("changed", "gone", "new", "same")
    assert "secret" not in json.dumps(ours)
    assert differing(ours, ours) == ()
    assert of_json(json.dumps({str(n): n for n in range(65)}).encode())[1] == {}


def test_a_scope_cannot_be_forged_by_its_parts() -> None:
    def scope(caller: str, operation: str) -> str:
        claim = Policy(caller=caller, operation=operation, key=lambda _: "k").claim_of(Request())
        assert isinstance(claim, Claim)
        return claim.scope

    scopes = [("a", "b"), ('a", "b', ""), ("", 'a", "b'), ("a|b", ""), ("a", "|b"), ("", "")]
    assert len({scope(*parts) for parts in scopes}) == len(scopes)


def test_method_and_path_are_part_of_the_scope_unless_said_otherwise() -> None:
    request = {path: Request(method="POST", path=path) for path in ("/a", "/b")}
    by_path = Policy(key=lambda _: "k")
    by_name = Policy(key=lambda _: "k", operation="hooks")

    assert by_path.claim_of(request["/a"]) != by_path.claim_of(request["/b"])
    assert by_name.claim_of(request["/a"]) == by_name.claim_of(request["/b"])


def claim_of(policy: Policy, **request: object) -> Claim:
    claim = policy.claim_of(Request(**request))  # type: ignore[arg-type]
    assert isinstance(claim, Claim)
    return claim


def test_the_query_string_is_content() -> None:
    policy = Policy(key=lambda _: "k")
    ann, bob, none = (
        claim_of(policy, method="POST", path="/pay", query=query, body=b'{"a": 1}')
        for query in ("to=ann", "to=bob", "")
    )
    ignoring = Policy(key=lambda _: "k", query="ignored")

    assert ann.scope == bob.scope == none.scope
    assert len({ann.fingerprint, bob.fingerprint, none.fingerprint}) == 3
    assert differing(ann.fields, bob.fields) == ("the query string",)
    assert none.fingerprint == of_json(b'{"a": 1}')[0]
    assert claim_of(ignoring, query="to=ann") == claim_of(ignoring, query="to=bob")


def test_without_a_caller_another_proof_of_who_asks_is_other_content() -> None:
    """It would be another's answer; and a refreshed token must not run the work again."""

    def asked(policy: Policy, proof: str) -> Claim:
        return claim_of(policy, headers=(("Authorization", proof),))

    unnamed = Policy(key=lambda _: "k")
    named = Policy(key=lambda _: "k", caller="ann")
    ann, bob = asked(unnamed, "Bearer ann"), asked(unnamed, "Bearer bob")

    assert (ann.scope, ann.key) == (bob.scope, bob.key)
    assert differing(ann.fields, bob.fields) == ("the Authorization header",)
    assert ann.fingerprint != bob.fingerprint
    assert asked(named, "Bearer monday") == asked(named, "Bearer tuesday")


CLAIM = Claim(scope="s", key="k", fingerprint="f1", fields={"a": "1"})
SAID = Response(201, b"x")


@pytest.mark.parametrize(
    ("fingerprint", "response", "live", "held", "expected"),
    [
        ("f1", SAID, True, False, Replay(SAID)),
        ("f1", None, True, True, Running()),
        ("f1", None, True, False, None),
        ("f2", SAID, True, False, Conflict(("a",))),
        ("f2", None, True, False, Conflict(("a",))),
        ("f2", None, True, True, Conflict(("a",))),
        ("f1", SAID, False, False, None),
        ("f2", SAID, False, False, None),
        ("f1", None, False, True, Running()),
    ],
)
def test_a_record_decides(
    *, fingerprint: str, response: Response | None, live: bool, held: bool, expected: object
) -> None:
    record = ClaimRecord(
        fingerprint=fingerprint, fields={"a": "2"}, response=response, live=live, held=held
    )

    assert judge(CLAIM, record) == expected


def test_only_success_is_kept_and_final_refusals_where_that_is_wanted() -> None:
    statuses = range(100, 600)

    transient = {408, 409, 425, 429}
    assert [s for s in statuses if is_success(s)] == [s for s in statuses if s // 100 == 2]
    assert [s for s in statuses if is_final(s)] == [
        s for s in statuses if s // 100 in (2, 4) and s not in transient
    ]


def test_a_redelivery_may_run_again_what_was_refused_but_never_what_was_done() -> None:
    def told(status: int) -> object:
        response = Response(status)
        record = ClaimRecord(fingerprint="f1", fields={}, response=response, live=True, held=False)
        return judge(replace(CLAIM, redelivery=True), record)

    assert [told(status) for status in (404, 422)] == [None, None]
    # What a redirect did is kept where it is recorded.
    assert [told(status) for status in (201, 303)] == [Replay(Response(201)), Replay(Response(303))]


def test_what_is_kept_of_a_response_is_bounded_and_belongs_to_nobody() -> None:
    policy = Policy(response_bytes_max=10)
    pairs = (
        ("Content-Type", "text/plain"),
        ("Set-Cookie", "a=b"),
        ("Location", "/1"),
        ("Date", "x"),
    )

    small = policy.kept(Response(200, b"0123456789", pairs))
    large = policy.kept(Response(200, b"0123456789x", pairs))

    assert small == Response(200, b"0123456789", (pairs[0], pairs[2]))
    assert large == Response(200, b"", (pairs[2], ("x-mailonce-gate", "body-not-kept")))
    assert policy.kept(Response(500, b"")) is None


@pytest.mark.parametrize(
    ("choices", "running", "conflict"),
    [
        ({}, 503, 409),
        ({"running": "accepted"}, 202, 409),
        ({"answers": "ietf"}, 409, 422),
    ],
)
def test_the_codes_are_the_seeds_or_the_drafts(
    choices: dict[str, str], running: int, conflict: int
) -> None:
    policy = Policy(**choices)  # type: ignore[arg-type]

    busy = answer(policy, Running())
    finished_by_us = answer(policy, Running(), finishes=True)
    other = answer(policy, Conflict(("a",)))

    assert (busy.response.status, other.response.status) == (running, conflict)
    assert busy.response.header("x-mailonce-gate") is None
    assert (finished_by_us.response.status, finished_by_us.outcome) == (202, Outcome.RUNNING)
    assert finished_by_us.response.header("x-mailonce-gate") == "processing"
    assert json.loads(other.response.body)["fields"] == ["a"]
    is_problem = other.response.header("content-type") == "application/problem+json"
    assert is_problem == (policy.answers == "ietf")


@pytest.mark.parametrize(
    "choices",
    [
        {"window_s": 0},
        {"lease_s": -1},
        {"fingerprint": "md5"},
        {"query": "sorted"},
        {"held_bytes_max": 0},
        {"other_content": "drop"},
        {"kept_headers": ("Set-Cookie",)},
    ],
)
def test_a_policy_that_could_never_work_is_refused(choices: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        Policy(**choices)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [True, False, "", 0, b"wrong"])
def test_what_a_verify_function_means_is_not_guessed(value: object) -> None:
    policy = Policy(verify=cast(Any, lambda *_: value))

    with pytest.raises(ConfigError, match="`verify` must give None where the sender is verified"):
        policy.refusal_of(Request())


def test_a_verify_function_that_must_be_awaited_is_refused() -> None:
    async def verify(request: Request, now_ms: int) -> str | None:
        del request, now_ms
        return None

    with pytest.raises(ConfigError, match="may not be an `async def`"):
        Policy(verify=cast(Any, verify)).refusal_of(Request())


def test_a_key_function_that_gives_a_number_is_told_so() -> None:
    with pytest.raises(ConfigError, match=r"it gave a value of type int; write `str\(…\)`"):
        Policy(key=cast(Any, lambda _: 42)).claim_of(Request())


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"verify": lambda _: None}, r"called with \(request, now_ms\)"),
        ({"key": lambda: "k"}, r"called with \(request\)"),
        ({"methods": "POST"}, 'write `methods={"POST"}`'),
    ],
)
def test_a_function_that_cannot_be_called_is_refused_when_it_is_given(
    choices: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        Policy(**choices)


def test_a_function_may_have_more_than_the_gate_gives_it() -> None:
    def signed(request: Request, now_ms: int, *, secret: str = "s") -> str | None:
        return f"{request.method}{now_ms}{secret}"

    assert Policy(verify=signed, now_ms=lambda: 7).refusal_of(Request(method="PUT")) == "PUT7s"
    Policy(key=cast(Any, max))


def test_a_function_is_judged_by_how_it_is_called_and_not_by_what_it_wraps() -> None:
    def with_secret(check: Callable[..., str | None]) -> Callable[..., str | None]:
        @wraps(check)
        def called(request: Request, now_ms: int) -> str | None:
            return check(request, now_ms, "secret")

        return called

    @with_secret
    def signed(request: Request, now_ms: int, secret: str) -> str | None:
        return f"{request.method}{now_ms}{secret}"

    assert Policy(verify=signed, now_ms=lambda: 7).refusal_of(Request()) == "7secret"
    assert Policy(verify=Mock(return_value=None)).refusal_of(Request()) is None
