"""Amazon SES through EventBridge: the very events of SNS, by another way."""

import json
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from sqlalchemy import func, select

from mailonce import providers
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.source import Source
from mailonce.core.ledger.entry import ArrivalOutcome, Entry, Status
from mailonce.core.sends.send_key import key_of_uuid
from mailonce.errors import ConfigError
from mailonce.manage.sources import check_source
from mailonce.pipeline.parse import entry_of
from mailonce.store.schema.tables import COUNTS, EVENTS, FACTS
from tests.core.sends.mails import UUID
from tests.factories import Ledger, new_id
from tests.providers.cases import arrival_of, cases_of, find, keys, provider_of, source_of
from tests.providers.sns_peer import NOW_MS, TOPIC, notification

SES = source_of("ses", id="src_sns", account="mail", topic_arns=(TOPIC,))
BRIDGE = source_of("eventbridge", id="src_bridge", account="mail", tokens=("t",))
# What EventBridge is never told: inbound mail, and the probe of the older notifications.
EVENTS_OF_SES = [case for case in cases_of("ses") if case.value.get("eventType")]


def wrapped(detail: Any, **changes: Any) -> dict[str, Any]:
    return {
        "version": "0",
        "id": "6f3d",
        "detail-type": "Email Something",
        "source": "aws.ses",
        "account": "111122223333",
        "time": "2026-01-01T00:00:09Z",
        "region": "eu-west-1",
        "resources": [],
        "detail": detail,
        **changes,
    }


def entry(source: Source, body: Any, now_ms: int) -> Entry:
    arrival = Arrival(method="POST", headers={}, body=json.dumps(body).encode(), now_ms=NOW_MS)
    provider = provider_of(source.provider)
    parsed = provider.parse(arrival, source)
    return entry_of(provider, source, arrival, parsed, new_id=partial(new_id, now_ms))


def test_an_event_of_ses_has_one_key_by_either_way(subtests: pytest.Subtests) -> None:
    assert EVENTS_OF_SES
    for case in EVENTS_OF_SES:
        with subtests.test(case.name):
            by_sns = keys("ses", case.value, case.headers)

            by_bridge = keys("eventbridge", wrapped(case.value))

            assert by_bridge == by_sns


@pytest.mark.parametrize("first", ["sns", "bridge"])
async def test_copies_by_sns_and_by_eventbridge_collapse_in_one_account(
    ledger: Ledger, first: str
) -> None:
    detail = find("eventbridge", "bounced_two").value["detail"]
    by_sns = entry(SES, notification(detail), ledger.now_ms)
    by_bridge = entry(BRIDGE, wrapped(detail), ledger.now_ms)
    in_order = (by_sns, by_bridge) if first == "sns" else (by_bridge, by_sns)

    answers = [answer for one in in_order for answer in await ledger.record(one)]

    assert answers == [
        ArrivalOutcome(Status.ACCEPTED, events=2, new=2),
        ArrivalOutcome(Status.DUPLICATE, events=2, new=0),
    ]
    rows, facts, counted = await ledger.database.read(
        lambda tx: (
            tx.execute(select(EVENTS.c.account, EVENTS.c.recipient)).all(),
            tx.execute(select(FACTS.c.recipient, FACTS.c["count"])).all(),
            tx.execute(select(func.sum(COUNTS.c["count"]))).scalar_one(),
        )
    )
    assert sorted(map(tuple, rows)) == [
        ("ses/mail", "ann@example.net"),
        ("ses/mail", "bob@example.net"),
    ]
    assert sorted(map(tuple, facts)) == [("ann@example.net", 1), ("bob@example.net", 1)]
    assert counted == 2


def test_an_event_by_either_way_leads_to_the_send_whose_header_it_shows() -> None:
    detail = find("eventbridge", "bounce_hard").value["detail"]
    headers = [{"name": "X-Mailonce-Id", "value": UUID}]
    shown = {**detail, "mail": {**detail["mail"], "headers": headers}}

    by_sns = entry(SES, notification(shown), NOW_MS)
    by_bridge = entry(BRIDGE, wrapped(shown), NOW_MS)
    unproven = entry(replace(BRIDGE, unproven=True), wrapped(shown), NOW_MS)

    sends = [one.events[0].send for one in (by_sns, by_bridge, unproven)]
    assert sends == [key_of_uuid(UUID), key_of_uuid(UUID), None]


async def test_copies_of_two_accounts_stay_apart(ledger: Ledger) -> None:
    detail = find("eventbridge", "bounce_hard").value["detail"]
    elsewhere = replace(BRIDGE, account="another")

    await ledger.record(entry(SES, notification(detail), ledger.now_ms))
    [answer] = await ledger.record(entry(elsewhere, wrapped(detail), ledger.now_ms))

    assert answer == ArrivalOutcome(Status.ACCEPTED, events=1, new=1)


def test_a_source_is_of_the_account_of_its_family() -> None:
    unknown = source_of("carrier-pigeon", account="mail")

    assert providers.account_of(BRIDGE) == providers.account_of(SES) == "ses/mail"
    assert providers.account_of(unknown) == "carrier-pigeon/mail"


def test_a_source_without_any_proof_is_no_source() -> None:
    with pytest.raises(ConfigError, match="signs nothing"):
        check_source(replace(BRIDGE, tokens=()), window_days=35)

    check_source(BRIDGE, window_days=35)


def test_the_id_of_the_envelope_names_the_delivery() -> None:
    body = json.dumps(wrapped({"eventType": "Send"})).encode()

    parsed = provider_of("eventbridge").parse(arrival_of(body), BRIDGE)

    assert parsed.delivery_id == "6f3d"


def test_a_notice_without_an_id_is_known_by_all_of_it() -> None:
    notice = wrapped({"a": 1})
    del notice["id"]

    [one], [same], [other] = (
        keys("eventbridge", body) for body in (notice, dict(notice), {**notice, "region": "x"})
    )

    assert one == same
    assert one.key != other.key
