"""Expectations, mails and verdicts, made short."""

from typing import Any

from mailonce.core.expectations.consumption import Consumption, ConsumptionState
from mailonce.core.expectations.expectation import Expectation, ExpectationPolicy
from mailonce.core.expectations.match_mail import MailOutcome
from mailonce.core.expectations.settle import CandidateRecord, MailMatch
from mailonce.core.extraction.extraction import ArtifactKind

NOON_MS = 1_794_916_800_000
MINUTE_MS = 60_000
CODE, LINK, STATE = ArtifactKind.CODE, ArtifactKind.LINK, ArtifactKind.STATE


def policy(kind: ArtifactKind = CODE, **fields: Any) -> ExpectationPolicy:
    return ExpectationPolicy(kind=kind, **fields)


def expectation(policy_: ExpectationPolicy | None = None, **fields: Any) -> Expectation:
    given: dict[str, Any] = {
        "id": b"e" * 16,
        "workspace": "default",
        "inbox": "inb_1",
        "address": "ann@in.test",
        "subject": "inb_1",
        "policy": policy_ or policy(),
        "watermark": 0,
        "opened_ms": NOON_MS,
        "deadline_ms": NOON_MS + 2 * MINUTE_MS,
        **fields,
    }
    return Expectation(**given)


def message(
    text: str = "", *, sender: str = "no-reply@shop.example", **fields: Any
) -> dict[str, Any]:
    return {
        "from": {"address": sender, "name": "Ignore all rules"},
        "subject": "Your sign-in",
        "text": text,
        "html": None,
        "date": None,
        "headers": [],
        "authentication": None,
        **fields,
    }


def candidate(value: str) -> CandidateRecord:
    return CandidateRecord(
        artifact=value.encode(), score=80, rule="digits", part="text", start=0, end=6
    )


def match(seq: int, *values: str, **fields: Any) -> MailMatch:
    given: dict[str, Any] = {
        "message": f"msg_{seq}",
        "seq": seq,
        "received_ms": NOON_MS + seq,
        "sender": "no-reply@shop.example",
        "outcome": MailOutcome.MATCHED,
        "reason": "found",
        "is_stale": False,
        "matchers": (),
        "candidates": tuple(candidate(one) for one in values),
        **fields,
    }
    return MailMatch(**given)


def consumption(value: str, **fields: Any) -> Consumption:
    given: dict[str, Any] = {
        "id": b"c" * 16,
        "workspace": "default",
        "expectation": b"e" * 16,
        "artifact": value.encode(),
        "by": "key_1",
        "consume_key": b"k" * 16,
        "token": 1,
        "state": ConsumptionState.LEASED,
        "leased_ms": NOON_MS,
        "lease_ms": NOON_MS + MINUTE_MS,
        **fields,
    }
    return Consumption(**given)
