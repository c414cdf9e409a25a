"""The proofs that a source demands beside a signature: each of them, and all of them."""

from base64 import b64encode
from typing import Any

import pytest

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Refused
from mailonce.core.arrivals.source import Source
from mailonce.core.signatures import proof
from mailonce.errors import ConfigError


def source(**proofs: Any) -> Source:
    return Source(id="s", workspace="w", name="n", provider="p", account="a", **proofs)


def arrival(**given: Any) -> Arrival:
    return Arrival(method="POST", headers=given.pop("headers", {}), body=b"", now_ms=0, **given)


def basic(words: str) -> dict[str, str]:
    return {"authorization": "Basic " + b64encode(words.encode()).decode()}


def test_a_source_that_demands_nothing_takes_anybody() -> None:
    assert not proof.has_proof(source())
    assert proof.check(source(), arrival()) is None


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        (basic("hook:word"), None),
        (basic("hook:next"), None),
        (basic("hook:wrong"), proof.WRONG_PASSWORD),
        ({}, proof.NO_PASSWORD),
        ({"authorization": "Basic é"}, proof.NO_PASSWORD),
        ({"authorization": "Bearer hook:word"}, proof.NO_PASSWORD),
    ],
)
def test_each_password_of_a_rotation_counts(headers: dict[str, str], said: Refused | None) -> None:
    wanted = source(basic=("hook:word", "hook:next"))

    assert proof.check(wanted, arrival(headers=headers)) == said


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"token": "t1"}, None),
        ({"headers": {"authorization": "bearer t1"}}, None),
        ({"query": "a=b&token=t1"}, None),
        ({"query": "access_token=t%31"}, None),
        ({"query": "tokens=t1"}, proof.WRONG_TOKEN),
        ({"token": "t2"}, proof.WRONG_TOKEN),
        # What stands in the path counts before the rest.
        ({"token": "t2", "query": "token=t1"}, proof.WRONG_TOKEN),
        ({}, proof.WRONG_TOKEN),
    ],
)
def test_a_token_is_found_wherever_a_sender_can_put_it(
    given: dict[str, Any], said: Refused | None
) -> None:
    assert proof.check(source(tokens=("t1",)), arrival(**given)) == said


@pytest.mark.parametrize(
    ("headers", "is_taken"),
    [
        ({"x-a": "1", "x-b": "3"}, True),
        ({"x-a": "2", "x-b": "3"}, True),
        ({"x-a": "1"}, False),
        ({"x-a": "3", "x-b": "3"}, False),
    ],
)
def test_every_header_must_have_one_of_its_values(
    headers: dict[str, str], *, is_taken: bool
) -> None:
    wanted = source(headers=("X-A: 1", "x-a:2", "X-B: 3"))

    assert proof.check(wanted, arrival(headers=headers)) == (
        None if is_taken else proof.WRONG_HEADER
    )


@pytest.mark.parametrize(
    ("peer", "is_taken"),
    [
        ("203.0.113.9", True),
        ("2001:db8::7", True),
        ("203.0.114.9", False),
        ("::ffff:203.0.113.9", False),
        ("nonsense", False),
        (None, False),
    ],
)
def test_an_address_must_be_in_one_of_the_networks(peer: str | None, *, is_taken: bool) -> None:
    wanted = source(allow_ips=("203.0.113.1/24", "2001:db8::/32"))

    assert proof.check(wanted, arrival(peer=peer)) == (None if is_taken else proof.WRONG_ADDRESS)


def test_all_proofs_are_demanded_together() -> None:
    wanted = source(basic=("hook:word",), tokens=("t1",), allow_ips=("127.0.0.1",))
    good: dict[str, Any] = {"headers": basic("hook:word"), "token": "t1", "peer": "127.0.0.1"}

    assert proof.check(wanted, arrival(**good)) is None
    for name in good:
        lacking = {other: value for other, value in good.items() if other != name}
        assert isinstance(proof.check(wanted, arrival(**lacking)), Refused), name


def test_a_network_that_is_none_is_named_with_its_setting() -> None:
    proof.check_network("10.0.0.1/8")
    with pytest.raises(ConfigError, match=r"`trusted` has '10\.0\.0'"):
        proof.check_network("10.0.0", "trusted")


@pytest.mark.parametrize(
    ("proofs", "words"),
    [
        ({"basic": ("user:password",)}, None),
        ({"basic": ("nocolon",)}, "user:password"),
        ({"headers": ("X-Hook: word",)}, None),
        ({"headers": ("foo",)}, "'Name: value'"),
        ({"headers": (": word",)}, "'Name: value'"),
        ({"headers": ("a b: c",)}, "'Name: value'"),
    ],
)
def test_a_proof_that_is_not_of_its_form_is_named(proofs: Any, words: str | None) -> None:
    fault = proof.fault_of(source(**proofs))

    assert (fault is None) if words is None else (fault is not None and words in fault)
