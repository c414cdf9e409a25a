"""MailWebhook: its signature's header, and the revisions that replays make."""

import json
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from sqlalchemy import select

from mailonce.core.arrivals.provider import Verdict, Verified
from mailonce.core.ledger.entry import ArrivalOutcome, Entry, Status
from mailonce.core.signatures import hmac_signature as schemes
from mailonce.pipeline.parse import entry_of
from mailonce.store.schema.tables import CONFLICTS, EVENTS
from tests.factories import Ledger, new_id
from tests.providers.cases import NOW_S, arrival_of, find, keys, provider_of, source_of
from tests.providers.signing import sign_mailwebhook

PROVIDER = provider_of("mailwebhook")
SOURCE = source_of("mailwebhook", secrets=("s3cret",))
BODY = b'{"a":1}'
V1 = sign_mailwebhook("s3cret", BODY, str(NOW_S))


def verdict(header: str) -> Verdict:
    return PROVIDER.verify(arrival_of(BODY, {"X-MailWebhook-Signature": header}), SOURCE, {})


@pytest.mark.parametrize(
    "header",
    [
        f"t={NOW_S}, kid=mw_1, v1={V1}",
        f"t={NOW_S},kid=mw_1,v1={V1}",
        f" v1={V1} , t={NOW_S} , kid=mw_2",
        f"t={NOW_S}, kid=mw_1, v1={V1}, v2=later",
        f"t={NOW_S}, v1={V1}",
    ],
)
def test_the_items_of_the_header_may_come_in_any_order(header: str) -> None:
    assert verdict(header) == Verified()


@pytest.mark.parametrize(
    ("header", "refused"),
    [
        ("", schemes.MISSING),
        (f"t={NOW_S}, kid=mw_1", schemes.MISSING),
        (f"kid=mw_1, v1={V1}", schemes.MISSING),
        (f"t={NOW_S}, kid=mw_1, v1={V1}, v1={V1}", schemes.WRONG),
        (f"t={NOW_S}, t={NOW_S}, v1={V1}", schemes.WRONG),
        (f"t={NOW_S}, kid=mw_1, v1=not-base64!", schemes.WRONG),
        (f"t={NOW_S}, kid=mw_1, v1=c2hvcnQ=", schemes.WRONG),
        (f"t={NOW_S}, kid=mw_1, v1={V1.rstrip('=')}", schemes.WRONG),
    ],
)
def test_a_header_of_another_form_is_refused(header: str, refused: Verdict) -> None:
    assert verdict(header) == refused


def test_the_key_is_the_same_under_either_name() -> None:
    case = find("mailwebhook", "generic")
    [key] = case.headers.values()

    [one], [other] = (
        keys("mailwebhook", case.value, {name: key})
        for name in ("X-Idempotency-Key", "Idempotency-Key")
    )

    assert one == other


def test_without_a_key_the_body_is_the_identity() -> None:
    value = find("mailwebhook", "generic").value

    [one], [same], [other] = (
        keys("mailwebhook", body) for body in (value, dict(value), {**value, "meta": {}})
    )

    assert one == same
    assert one.key != other.key


def entry(body: Any, now_ms: int, **options: str) -> Entry:
    source = replace(SOURCE, options=options)
    arrival = arrival_of(json.dumps(body).encode(), {"X-Idempotency-Key": "k1"})
    parsed = PROVIDER.parse(arrival, source)
    return entry_of(PROVIDER, source, arrival, parsed, new_id=partial(new_id, now_ms))


FIRST = find("mailwebhook", "generic").value
OTHER = {"text": "what today's mapper makes of it"}


async def record_twice_each(ledger: Ledger, **options: str) -> tuple[list[Status], int, int]:
    """Record a mail and another body under its key; give the answers, events and conflicts."""
    answers = [
        answer
        for body in (FIRST, FIRST, OTHER, OTHER)
        for answer in await ledger.record(entry(body, ledger.now_ms, **options))
    ]
    events, conflicts = await ledger.database.read(
        lambda tx: (
            tx.execute(select(EVENTS.c.id, EVENTS.c.conflict_with).order_by(EVENTS.c.id)).all(),
            tx.execute(select(CONFLICTS)).all(),
        )
    )
    assert [bytes(one.conflict_with or b"") for one in events] == [b"", bytes(events[0].id)]
    counted = sum(answer.new for answer in answers if isinstance(answer, ArrivalOutcome))
    statuses = [answer.status for answer in answers if isinstance(answer, ArrivalOutcome)]
    return statuses, counted, len(conflicts)


async def test_another_body_under_a_known_key_is_a_conflict(ledger: Ledger) -> None:
    statuses, counted, conflicts = await record_twice_each(ledger)

    assert statuses == [Status.ACCEPTED, Status.DUPLICATE, Status.CONFLICT, Status.CONFLICT]
    assert (counted, conflicts) == (1, 1)


async def test_it_is_a_revision_where_the_operator_says_so(ledger: Ledger) -> None:
    statuses, counted, conflicts = await record_twice_each(ledger, other_content="revision")

    assert statuses == [Status.ACCEPTED, Status.DUPLICATE, Status.ACCEPTED, Status.DUPLICATE]
    assert (counted, conflicts) == (2, 0)


def test_what_other_content_cannot_be_is_said_at_once() -> None:
    source = replace(SOURCE, options={"other_content": "ignore"})

    assert "other_content" in (PROVIDER.check(source) or "")


def test_success_is_told_without_a_body() -> None:
    assert PROVIDER.codes.done == 204
