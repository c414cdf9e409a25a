"""The steps of many sends, each in one statement that is its own transaction, on PostgreSQL.

What a transaction of several statements does (`flights.py`) costs a round trip for each of them,
and SQLAlchemy builds the texts anew for every number of sends. Here the texts are fixed, and values
travel as arrays. Only what is rare is left to the transaction: an address of which anything is
known among the suppressions, whatever it says, and a send that does not stand as it was read.
"""

from collections.abc import Mapping, Sequence

from mailonce.core.sends.send_lifecycle import MOVES, SendAct, SendState
from mailonce.core.work.states import State
from mailonce.store.dialects.contract import RunStatement
from mailonce.store.sends.flights import (
    CHANGE_TYPES,
    SET,
    STANDS,
    FlightMark,
    SendEnd,
    SendJob,
    SendStep,
    change_values,
)

_JOB = ", ".join("c.body" if name == "content" else f"s.{name}" for name in SendJob._fields)
READ = f"""
SELECT {_JOB} FROM sends AS s LEFT JOIN send_contents AS c ON c.id = s.content
WHERE s.key = ANY($1::bytea[])
"""  # noqa: S608

_PENDING, _UNKNOWN, _FLYING = (
    int(SendState.PENDING), int(SendState.UNKNOWN), int(MOVES[SendState.PENDING, SendAct.BEGIN])
)  # fmt: skip
# A repetition is as old as the call that it repeats, and has its bytes. Rows are locked in the
# order of their keys, as everywhere; `+ 0` keeps a plan that was made while the table was small
# from the index of all that is leased.
BEGIN = f"""
WITH m AS MATERIALIZED (
    SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::boolean[], $4::text[], $5::text[],
                         $6::boolean[], $7::bytea[])
        AS m (key, token, is_repeat, workspace, recipient, is_forced, frozen)
    WHERE m.is_repeat OR m.is_forced OR NOT EXISTS (
        SELECT FROM suppressions AS p WHERE p.workspace = m.workspace AND p.address = m.recipient)
), locked AS MATERIALIZED (
    SELECT key FROM sends WHERE key IN (SELECT key FROM m) ORDER BY key FOR UPDATE
)
UPDATE sends AS s SET
    send_state = {_FLYING}, flight = s.attempts, is_repeat = m.is_repeat,
    flight_ms = CASE WHEN m.is_repeat THEN s.flight_ms ELSE $8 END,
    tries = CASE WHEN m.is_repeat THEN s.tries ELSE s.tries + 1 END,
    body = CASE WHEN m.is_repeat THEN s.body ELSE m.frozen END
FROM m, locked
WHERE s.key = m.key AND locked.key = s.key AND s.token = m.token AND s.lease_ms > $8
  AND s.state + 0 = {State.LEASED:d}
  AND s.send_state = CASE WHEN m.is_repeat THEN {_UNKNOWN} ELSE {_PENDING} END
RETURNING s.key
"""  # noqa: S608

_STEP_TYPES = {
    "send": "bytea", "attempt": "integer", "at_ms": "bigint", "latency_ms": "integer",
    "status": "integer", "error": "text", "step": "text", "outcome": "text", "sender": "text",
    "message_id": "text",
}  # fmt: skip
assert tuple(_STEP_TYPES) == SendStep._fields, "a step is written as it is declared"


def _unnested(types: Mapping[str, str], name: str, *, first: int) -> str:
    """Write the columns of some rows as arrays, whose numbers begin with `first`."""
    arrays = ", ".join(
        f"${number}::{type_}[]" for number, type_ in enumerate(types.values(), first)
    )
    return f"unnest({arrays}) AS {name} ({', '.join(types)})"


_STEPS = ", ".join(_STEP_TYPES)
_STEP_SET = ", ".join(
    f"{name} = excluded.{name}" for name in _STEP_TYPES if name not in {"send", "attempt"}
)
# A step whose lease was lost is noted already, and is told more of now.
END = f"""
WITH v AS MATERIALIZED (
    SELECT * FROM {_unnested(CHANGE_TYPES, "v", first=1)}
), locked AS MATERIALIZED (
    SELECT key FROM sends WHERE key IN (SELECT key FROM v) ORDER BY key FOR UPDATE
), changed AS (
    UPDATE sends AS s SET {SET} FROM v, locked
    WHERE s.key = v.key AND locked.key = s.key AND {STANDS} RETURNING s.key
), _noted AS (
    INSERT INTO send_attempts ({_STEPS})
    SELECT * FROM {_unnested(_STEP_TYPES, "t", first=len(CHANGE_TYPES) + 1)} ORDER BY send, attempt
    ON CONFLICT (send, attempt) DO UPDATE SET {_STEP_SET}
)
SELECT key FROM changed
"""  # noqa: S608


async def read_jobs(run: RunStatement, keys: Sequence[bytes]) -> dict[bytes, SendJob]:
    """Read sends by their keys, with what they send."""
    return {row[0]: SendJob._make(row) for row in await run(READ, keys)}


async def begin(run: RunStatement, marks: Sequence[FlightMark], *, now_ms: int) -> set[bytes]:
    """Mark sends as in flight, and give their keys.

    Of the others nothing is known yet: `flights.begin` tells whether they may leave.
    """
    rows = await run(
        BEGIN,
        [mark.key for mark in marks],
        [mark.token for mark in marks],
        [mark.act is SendAct.REPEAT for mark in marks],
        [mark.workspace for mark in marks],
        [mark.recipient for mark in marks],
        [mark.is_forced for mark in marks],
        [mark.frozen for mark in marks],
        now_ms,
    )
    return {row[0] for row in rows}


async def end(
    run: RunStatement, ends: Sequence[SendEnd], steps: Sequence[SendStep], *, now_ms: int
) -> set[bytes]:
    """Write what steps change, and note them; give the keys of sends that stood as they were read.

    No send has two of either.
    """
    values = [change_values(one, now_ms) for one in ends]
    columns = [[row[name] for row in values] for name in CHANGE_TYPES]
    noted = [[step[place] for step in steps] for place in range(len(_STEP_TYPES))]
    return {row[0] for row in await run(END, *columns, *noted)}
