"""MailWebhook: its signature's header, and the revisions that replays make."""

import json
from functools import partial
from typing import Any

import pytest
from sqlalchemy import select

from mailonce.core import scheme as schemes
from mailonce.core.entry import Answer, Entry, Status
from mailonce.core.provider import Verdict, Verified
from mailonce.pipeline.parse import entry_of, parse
from mailonce.store.tables import CONFLICTS, EVENTS
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


def entry(body: Any, now_ms: int) -> Entry:
    arrival = arrival_of(json.dumps(body).encode(), {"X-Idempotency-Key": "k1"})
    return entry_of(
        PROVIDER, SOURCE, arrival, parse(PROVIDER, SOURCE, arrival), new_id=partial(new_id, now_ms)
    )


async def test_another_body_under_a_known_key_is_a_revision_and_no_conflict(
    ledger: Ledger,
) -> None:
    first = find("mailwebhook", "generic").value
    replayed = {"text": "what today's mapper makes of it"}

    answers = [
        answer
        for body in (first, first, replayed, replayed)
        for answer in await ledger.record(entry(body, ledger.now_ms))
    ]

    assert answers == [
        Answer(Status.ACCEPTED, events=1, new=1),
        Answer(Status.DUPLICATE, events=1, new=0),
        Answer(Status.ACCEPTED, events=1, new=1),
        Answer(Status.DUPLICATE, events=1, new=0),
    ]
    events, conflicts = await ledger.database.read(
        lambda tx: (
            tx.execute(select(EVENTS.c.id, EVENTS.c.conflict_with).order_by(EVENTS.c.id)).all(),
            tx.execute(select(CONFLICTS)).all(),
        )
    )
    assert [bytes(one.conflict_with or b"") for one in events] == [b"", bytes(events[0].id)]
    assert conflicts == []


def test_success_is_told_without_a_body() -> None:
    assert PROVIDER.codes.done == 204
