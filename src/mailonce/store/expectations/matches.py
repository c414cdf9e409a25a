"""The mails that an expectation judged, and those that it has not judged yet."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, Row, Select, and_, bindparam, delete, func, or_, select

from mailonce.core.expectations.match_mail import MATCHES, MailOutcome, MatcherVerdict
from mailonce.core.expectations.settle import CandidateRecord, MailMatch
from mailonce.store.dialects.upsert import insert_missing
from mailonce.store.schema.expectation_tables import EXPECTATION_MAILS
from mailonce.store.schema.mail_tables import MESSAGES

_X, _M = EXPECTATION_MAILS.c, MESSAGES.c
# More than any budget allows; an earlier attempt's slow mails spend none.
MATCHES_MAX = 100
QUARANTINED_MAX = 10
# Outcomes from which a state follows.
COUNTED = sorted({*MATCHES, MailOutcome.QUARANTINED})
_IS_QUARANTINED = _X.outcome == str(MailOutcome.QUARANTINED)
_RANKED = (
    select(
        EXPECTATION_MAILS,
        func.row_number()
        .over(partition_by=(_X.expectation, _IS_QUARANTINED), order_by=_X.seq.desc())
        .label("rank"),
    )
    .where(_X.expectation.in_(bindparam("ids", expanding=True)), _X.outcome.in_(COUNTED))
    .subquery()
)
_THAT_COUNT = (
    select(_RANKED)
    .where(
        or_(
            _RANKED.c.rank <= QUARANTINED_MAX,
            and_(_RANKED.c.rank <= MATCHES_MAX, _RANKED.c.outcome != str(MailOutcome.QUARANTINED)),
        )
    )
    .order_by(_RANKED.c.seq)
)


class _Verdict(Struct, frozen=True):
    matchers: tuple[MatcherVerdict, ...]
    candidates: tuple[CandidateRecord, ...]


class MessageToMatch(NamedTuple):
    """A message that an expectation has not judged yet."""

    id: str
    seq: int
    received_ms: int
    document: bytes


def unmatched_messages(
    tx: Connection, expectation: bytes, inbox: str, *, watermark: int, most: int
) -> list[MessageToMatch]:
    """List messages behind the watermark that have no verdict yet, in their order."""
    judged = and_(_X.expectation == expectation, _X.message == _M.id)
    query = (
        select(_M.id, _M.seq, _M.accepted_ms, _M.document)
        .join(EXPECTATION_MAILS, judged, isouter=True)
        .where(_M.inbox == inbox, _M.seq > watermark, _X.message.is_(None))
        .order_by(_M.seq)
        .limit(most)
    )
    return [MessageToMatch(row[0], row[1], row[2], bytes(row[3])) for row in tx.execute(query)]


def put(tx: Connection, expectation: bytes, matches: Sequence[MailMatch]) -> None:
    """Keep verdicts; one that stands already stays as it is."""
    rows = [
        {
            "expectation": expectation,
            "message": one.message,
            "seq": one.seq,
            "received_ms": one.received_ms,
            "sender": one.sender,
            "outcome": str(one.outcome),
            "reason": one.reason,
            "is_stale": one.is_stale,
            "verdict": msgspec.msgpack.encode(_Verdict(one.matchers, one.candidates)),
        }
        for one in matches
    ]
    insert_missing(tx, EXPECTATION_MAILS, rows)


def that_count(tx: Connection, expectations: Sequence[bytes]) -> dict[bytes, list[MailMatch]]:
    """List the mails from which the state of each expectation follows, in their order.

    However many others came, they are not read.
    """
    mails: dict[bytes, list[MailMatch]] = {}
    for row in tx.execute(_THAT_COUNT, {"ids": expectations}):
        mails.setdefault(bytes(row.expectation), []).append(_match(row))
    return mails


def latest(tx: Connection, expectation: bytes, *, most: int) -> list[MailMatch]:
    """List the latest mails that an expectation judged, whatever they were, in their order."""
    query = select(EXPECTATION_MAILS).where(_X.expectation == expectation)
    return list(reversed(_read(tx, query.order_by(_X.seq.desc()).limit(most))))


def _read(tx: Connection, query: Select[Any]) -> list[MailMatch]:
    return [_match(row) for row in tx.execute(query)]


def _match(row: Row[Any]) -> MailMatch:
    verdict = msgspec.msgpack.decode(bytes(row.verdict), type=_Verdict)
    return MailMatch(
        message=row.message,
        seq=row.seq,
        received_ms=row.received_ms,
        sender=row.sender,
        outcome=MailOutcome(row.outcome),
        reason=row.reason,
        is_stale=bool(row.is_stale),
        matchers=verdict.matchers,
        candidates=verdict.candidates,
    )


def forget(tx: Connection, expectation: bytes) -> None:
    """Delete all verdicts, so that the mails are judged anew."""
    tx.execute(delete(EXPECTATION_MAILS).where(_X.expectation == expectation))
