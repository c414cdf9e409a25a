"""Why an expectation stands as it does: each mail, each matcher, each candidate, what followed."""

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from mailonce.core.access import WRITES, Caller, Scope
from mailonce.core.deliveries.delivery import key_of
from mailonce.core.deliveries.route import Route
from mailonce.core.expectations.agent_view import sender_for_agent
from mailonce.core.expectations.expectation import ExpectationPolicy
from mailonce.core.expectations.hint import hint
from mailonce.core.expectations.match_mail import MailOutcome, MatchReason
from mailonce.core.expectations.settle import CandidateRecord, MailMatch
from mailonce.core.ids import public
from mailonce.core.moment import moment
from mailonce.errors import MissingError
from mailonce.store.configuration.keys import names_of
from mailonce.store.dialects.contract import Database, Tx
from mailonce.store.expectations import consumptions, matches, standing
from mailonce.store.expectations.standing import ExpectationStanding
from mailonce.store.inboxes import messages, refusals
from mailonce.store.inboxes.refusals import RefusedMail
from mailonce.store.work import pages
from mailonce.store.work.pages import StoredDelivery
from mailonce.views.deliveries import NONE_DOWN, EndpointsDown, delivery_json
from mailonce.views.expectations import consumption_json, expectation_json
from mailonce.views.inboxes import refused_json

# The latest ones; a mail that does not match is soon followed by another.
MAILS_MAX = 50
REFUSALS_MAX = 20
# Each is read again for it.
HINTS_MAX = 3
MINUTE_MS = 60_000

_HINTED = frozenset({MailOutcome.UNMATCHED, MailOutcome.QUARANTINED, MailOutcome.AMBIGUOUS})


class _Explanation(NamedTuple):
    known: ExpectationStanding
    mails: list[MailMatch]
    envelopes: dict[str, Any]
    # Of the latest mails that gave nothing, for whoever may read them.
    documents: dict[str, bytes]
    deliveries: list[StoredDelivery]
    refused: list[RefusedMail]
    acts: dict[bytes, list[dict[str, Any]]]
    # Of the keys that consumed, by their ids.
    names: dict[str, str]


async def explain(
    database: Database,
    caller: Caller,
    id_: bytes,
    routes: Mapping[str, Route],
    *,
    now_ms: int,
    down: EndpointsDown = NONE_DOWN,
) -> dict[str, Any]:
    """Explain an expectation: SMTP session, stored, matchers, candidates, deliveries, consumptions.

    Raises: MissingError.
    """
    own = [route.id for route in routes.values() if route.workspace == caller.workspace]
    read = await database.read(lambda tx: _read(tx, caller, id_, own))
    known = read.known
    hints = await asyncio.to_thread(_hints, known.expectation.policy, read.documents)
    settled = known.settle(now_ms=now_ms)
    deliveries = {bytes(row.key): row for row in read.deliveries}
    judged = [
        {
            **_mail(caller, known, one),
            "hint": hints.get(one.message),
            "envelope": read.envelopes.get(one.message),
            "deliveries": [
                delivery_json(deliveries[key], routes, down)
                for key in (bytes(key_of(one.message, route)) for route in own)
                if key in deliveries
            ],
        }
        for one in read.mails
    ]
    return {
        **expectation_json(caller, known, settled),
        "watermark": known.expectation.watermark,
        "reading": known.is_reading,
        "judged": judged,
        "refused": [refused_json(row) for row in read.refused],
        "consumptions": [
            {
                **consumption_json(one, now_ms=now_ms),
                # A child key is written behind its parent.
                "by_name": read.names.get(one.by.partition("/")[0]),
                "acts": [
                    {"act": act["act"], "by": act["by"], "at": moment(act["at_ms"])}
                    for act in read.acts.get(one.id, [])
                ],
            }
            for one in known.consumptions
        ],
    }


def _read(tx: Tx, caller: Caller, id_: bytes, routes: list[str]) -> _Explanation:
    workspace = caller.workspace
    known = standing.load(tx, workspace, id_)
    if known is None:
        raise MissingError("there is no such expectation; see GET /v1/expectations")
    expectation = known.expectation
    mails = matches.latest(tx, id_, most=MAILS_MAX)
    ids = [one.message for one in mails]
    # A hint quotes the mail, and names values that were not consumed.
    hinted = [one.message for one in mails if caller.scope in WRITES and _has_hint(one)]
    envelopes: dict[str, Any] = {}
    documents: dict[str, bytes] = {}
    for message in ids:
        row = messages.get(tx, expectation.inbox, message)
        if row is not None:
            envelopes[message] = orjson.loads(row.document)["envelope"]
            if message in hinted[-HINTS_MAX:]:
                documents[message] = row.document
    keys = [bytes(key_of(message, route)) for message in ids for route in routes]
    return _Explanation(
        known,
        mails,
        envelopes,
        documents,
        pages.get_many(tx, workspace, keys) if keys else [],
        refusals.of_inbox(
            tx,
            workspace,
            expectation.inbox,
            since_minute=expectation.opened_ms // MINUTE_MS,
            most=REFUSALS_MAX,
        ),
        consumptions.acts_of(tx, [one.id for one in known.consumptions]),
        names_of(tx, workspace, (one.by.partition("/")[0] for one in known.consumptions)),
    )


def _has_hint(mail: MailMatch) -> bool:
    return mail.outcome in _HINTED and mail.reason != MatchReason.UNREADABLE


def _hints(policy: ExpectationPolicy, documents: Mapping[str, bytes]) -> dict[str, str | None]:
    return {message: hint(policy, orjson.loads(one)) for message, one in documents.items()}


def _mail(caller: Caller, known: ExpectationStanding, mail: MailMatch) -> dict[str, Any]:
    is_agent = caller.scope is Scope.AGENT
    named = known.expectation.policy.senders
    return {
        "message": mail.message,
        "seq": mail.seq,
        "received_at": moment(mail.received_ms),
        "sender": sender_for_agent(mail.sender, named) if is_agent else mail.sender or None,
        "outcome": str(mail.outcome),
        "reason": mail.reason,
        "matchers": [
            {"matcher": str(one.matcher), "passed": one.passed, "reason": one.reason}
            for one in mail.matchers
        ],
        "found": [_candidate(one) for one in mail.candidates],
    }


def _candidate(candidate: CandidateRecord) -> dict[str, Any]:
    return {
        "artifact": public("art", candidate.artifact),
        "score": candidate.score,
        "rule": candidate.rule,
        "part": candidate.part,
        "start": candidate.start,
        "end": candidate.end,
        "speaks_for": list(candidate.speaks_for),
        "speaks_against": list(candidate.speaks_against),
        "guard": candidate.guard,
        "guard_reason": candidate.guard_reason,
        "host": candidate.host,
    }
