"""The statements by which PostgreSQL claims keys and records a batch, and their like."""

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from functools import cache

from mailonce.store.schema.ledger_rows import ARRIVALS, EVENTS, FACTS, OWED
from mailonce.store.schema.row_kind import Fold, RowKind

# Raised by mailonce_expect: the generation moved on, another batch won one of our keys, or the
# configuration moved on.
STALE = "ML001"
RACED = "ML002"
OUTDATED = "ML003"
# Another batch won a key while we wrote it, or this one stands already.
TAKEN = "23505"
# A deadlock cannot come from sorted batches; should one come from elsewhere, nothing was written.
OVERTAKEN = frozenset({STALE, RACED, TAKEN, "40001", "40P01"})

NOW_MS = "(extract(epoch FROM statement_timestamp()) * 1000)::bigint"

# A commit waits for a synchronous standby only if its transaction wrote something. A batch that
# stands already writes nothing new, and the standby may not have it yet.
SOMETHING = "SELECT pg_logical_emit_message(true, 'mailonce', '')"

# No padding is needed: its log takes space in whole segments.
PROBE = f"""
INSERT INTO probes (process, written_ms) VALUES ($1, {NOW_MS})
ON CONFLICT (process) DO UPDATE SET written_ms = excluded.written_ms
"""  # noqa: S608

HEAD = f"SELECT generation, rotated_ms, configuration, {NOW_MS} FROM head"  # noqa: S608

OWNERS = f"""
SELECT h.generation, h.rotated_ms, h.configuration, {NOW_MS}, c.key, c.fingerprint, c.owner
FROM head h LEFT JOIN (
    SELECT key, fingerprint, owner FROM claims_0 WHERE key = ANY($1::bytea[])
    UNION ALL
    SELECT key, fingerprint, owner FROM claims_1 WHERE key = ANY($1::bytea[])
) c ON true
"""  # noqa: S608

# What other batches may write, too, is written only after the claims are won: one order of locks
# everywhere. `new` has the events, each with its claim and, where it carries them, a fact and its
# arrival. A call of mailonce_expect costs as much as two events, so only an expectation that does
# not hold makes one.
_RECORD = """
WITH new AS MATERIALIZED (
    SELECT * FROM unnest($8::event_row_4[])
), same AS (
    SELECT CASE
        WHEN generation <> $1 THEN mailonce_expect(false, 'ML001')
        WHEN configuration <> $5::bigint THEN mailonce_expect(false, 'ML003')
        ELSE true
    END AS ok FROM head
), won AS (
    INSERT INTO claims_{parity} (key, fingerprint, owner)
    SELECT * FROM (
        SELECT key, fingerprint, id FROM new UNION ALL SELECT * FROM unnest($7::claim_row[])
    ) AS claimed{unless_older}
    ORDER BY 1 RETURNING 1
), all_won AS (
    SELECT CASE WHEN count(*) = $6 THEN true ELSE mailonce_expect(false, 'ML002') END AS ok FROM won
){writes}
SELECT same.ok AND all_won.ok{something}{leased} FROM same, all_won
"""

_UNLESS_OLDER = """
    WHERE NOT EXISTS (SELECT FROM claims_{older} AS old WHERE old.key = claimed.key)"""

_ALL_ARRIVALS = """(
        SELECT e.arrival AS id, e.workspace, e.source, e.arrival_key, e.status, e.events, e.new,
            e.headers, e.body_bytes, e.arrival_body AS body
        FROM new AS e WHERE e.arrival_key IS NOT NULL UNION ALL SELECT * FROM {rows}
    ) AS r"""

# What a batch is, beside its rows: the arguments behind the generation; see `BATCH`.
_BATCH = {"day": "$2::integer", "received_ms": "$3::bigint", "batch": "$4::bytea"}
_FIXED_ARGUMENTS = 8
_END = "\n)"
_FOLDS = {
    Fold.ADD: "kept.{0} + excluded.{0}",
    Fold.LEAST: "least(kept.{0}, excluded.{0})",
    Fold.GREATEST: "greatest(kept.{0}, excluded.{0})",
}

# What is owed to routes whose lane this process holds is leased as it is made: its worker has slots
# for it. The token is the reservation's own, so no other lease has it.
_OWN_IF_HELD = "CASE WHEN held.owner IS NULL THEN 0 ELSE {token}::bigint END"
_LEASED = replace(
    OWED,
    values={
        **OWED.values,
        **dict.fromkeys(("state", "attempts"), "(held.owner IS NOT NULL)::int"),
        **dict.fromkeys(("token", "leased_token"), _OWN_IF_HELD),
        "lease_ms": "held.lease_ms",
        "leased_by": "held.owner",
    },
)
_HELD = """ LEFT JOIN (
        SELECT w.route, lanes.owner, {now_ms} + w.lease_ms AS lease_ms
        FROM unnest({routes}::text[], {lease_ms}::bigint[]) AS w (route, lease_ms)
        JOIN lanes ON lanes.route = w.route
        WHERE lanes.owner = {owner} AND lanes.until_ms > {now_ms}
    ) AS held ON held.route = r.route"""


class Mode(Enum):
    """How a batch is written."""

    # All its keys are taken for new, unasked: the statement looks into the older generation, too.
    GUESS = "guess"
    # Its keys' owners were read first.
    ASK = "ask"
    # It may stand already: its rows are passed over, and a standby is waited for all the same.
    RERUN = "rerun"


@cache
def record(parity: int, kinds: tuple[RowKind, ...], mode: Mode, *, leases: bool = False) -> str:
    """Give the one statement that writes a batch.

    `kinds` are those that have an array of their own, in the order of these last arguments.
    `leases` leases what is owed where it can, and gives the keys; the owner, the routes, their
    lease times and the token then follow all other arguments.
    """
    may_stand = mode is Mode.RERUN
    writes = [
        _insert(EVENTS, "_events", "new AS r", may_stand=may_stand),
        _insert(FACTS, "_facts", "new AS r WHERE r.kind IS NOT NULL", may_stand=may_stand),
    ]
    last = _FIXED_ARGUMENTS + len(kinds)
    for number, kind in enumerate(kinds, _FIXED_ARGUMENTS + 1):
        rows = f"unnest(${number}::{kind.array_of}[])"
        if kind is OWED and leases:
            names = ("owner", "routes", "lease_ms", "token")
            places = {name: f"${last + place}" for place, name in enumerate(names, 1)}
            source = f"{rows} AS r" + _HELD.format(now_ms=NOW_MS, **places)
            text = _insert(_LEASED, "_leased", source, may_stand=may_stand, names=places)
            writes.append(f"{text.removesuffix(_END)} RETURNING key, state{_END}")
        elif kind is ARRIVALS:
            source = _ALL_ARRIVALS.format(rows=rows)
            writes.append(_insert(kind, "_arrivals", source, may_stand=may_stand))
        elif kind.postgres:
            writes.append(kind.postgres.format(rows=rows, **_BATCH))
        else:
            writes.append(_insert(kind, f"_write_{number}", f"{rows} AS r", may_stand=may_stand))
    return _RECORD.format(
        parity=parity,
        writes="".join(writes),
        unless_older=_UNLESS_OLDER.format(older=1 - parity) if mode is Mode.GUESS else "",
        something=f", ({SOMETHING})" if may_stand else "",
        leased=", (SELECT array_agg(key) FROM _leased WHERE state = 1)" if leases else "",
    )


def _insert(
    kind: RowKind, name: str, source: str, *, may_stand: bool, names: Mapping[str, str] = _BATCH
) -> str:
    """Give the part of the statement, of that name, that writes the rows of a kind."""
    names = {**_BATCH, **names, **{field: f"r.{field}" for field in kind.row.__struct_fields__}}
    values = [value.format_map(names) for value in kind.columns.values()]
    text = f""", {name} AS (
    INSERT INTO {kind.table.name} AS kept ({", ".join(kind.columns)})
    SELECT {", ".join(values)}
    FROM {"all_won, " if kind.lock_order else ""}{source}"""  # noqa: S608
    if kind.lock_order:
        text += f"\n    ORDER BY {', '.join(f'r.{name}' for name in kind.lock_order)}"
    if kind.fold:
        changes = [f"{name} = {_FOLDS[how].format(name)}" for name, how in kind.fold.items()]
        text += f"\n    ON CONFLICT ({', '.join(kind.key)}) DO UPDATE SET {', '.join(changes)}"
    elif kind.lock_order or may_stand:
        # An INSERT that expects no conflict is the quicker one.
        text += " ON CONFLICT DO NOTHING"
    return text + _END
