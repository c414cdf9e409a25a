"""All tables, once, for the queries that both databases share.

The migrations make them; a test compares the two. Times are unix milliseconds, ids and keys are
raw bytes, `day` is the day of receipt (days since 1970, UTC) by the database's clock.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
)

METADATA = MetaData()


_TYPES = {
    "bigint": BigInteger,
    "boolean": Boolean,
    "bytes": LargeBinary,
    "integer": Integer,
    "smallint": SmallInteger,
    "text": Text,
}


def columns_of(text: str) -> list[Column[object]]:
    """Read columns: each has a name, a type, and `key` (primary) or `null` (may be NULL)."""
    columns: list[Column[object]] = []
    for one in text.split(","):
        name, type_, *mark = one.split()
        is_key, nullable = mark == ["key"], mark == ["null"]
        columns.append(Column(name, _TYPES[type_], primary_key=is_key, nullable=nullable))
    return columns


def table_of(name: str, columns: str) -> Table:
    return Table(name, METADATA, *columns_of(columns))


HEAD = table_of(
    "head",
    """
    one smallint key, generation integer, rotated_ms bigint, configuration bigint,
    window_days integer, clock_ms bigint, facts_days integer, forget_from_ms bigint
    """,
)

# Written by a process to check that the database takes a write; see /readyz.
PROBES = table_of("probes", "process bytes key, written_ms bigint, padding bytes null")

WORKSPACES = table_of("workspaces", "id text key, name text, created_ms bigint")

SOURCES = table_of(
    "sources",
    """
    id text key, workspace text, name text, provider text, account text, settings bytes,
    sealed bytes, origin text, off text null, off_ms bigint null, created_ms bigint
    """,
)

KEYS = table_of(
    "keys",
    """
    id text key, workspace text, name text, scope text, digest bytes, created_ms bigint,
    revoked_ms bigint null, public_half bytes null
    """,
)

AUDIT = table_of(
    "audit",
    "id bytes key, workspace text, at_ms bigint, by text, operation text, object text",
)

CLAIMS = tuple(
    table_of(f"claims_{parity}", "key bytes key, fingerprint bytes, owner bytes")
    for parity in (0, 1)
)

ARRIVALS = table_of(
    "arrivals",
    """
    day integer key, id bytes key, received_ms bigint, workspace text, source text,
    arrival_key text, status text, events integer, new integer, headers bytes, body_bytes integer,
    body bytes null
    """,
)

EVENTS = table_of(
    "events",
    """
    day integer key, id bytes key, received_ms bigint, key bytes, workspace text, source text,
    account text, type text, bounce text null, message_id text, recipient text,
    occurred_ms bigint null, arrival bytes, position integer, detail bytes,
    conflict_with bytes null, body bytes null
    """,
)

COPIES = table_of(
    "copies",
    "day integer key, arrival bytes key, position integer key, event bytes, recognised_by text",
)

FACTS = table_of(
    "facts",
    """
    workspace text key, message_id text key, recipient text key, account text key,
    kind smallint key, count bigint, first bytes null, last bytes null, changed_ms bigint
    """,
)

SUPPRESSIONS = table_of(
    "suppressions",
    """
    workspace text key, address text key, stream text key, cause text key, event bytes key,
    lifts boolean, lifted boolean, stamp bytes null, reason text null, said_ms bigint,
    by_key text null
    """,
)

# Deltas of batches, and with an empty batch their fold: stats are the sum of both.
COUNTS = table_of(
    "counts",
    """
    workspace text key, day integer key, source text key, type text key, batch bytes key,
    count bigint
    """,
)

CONFLICTS = table_of(
    "conflicts",
    """
    id bytes key, workspace text, source text, key bytes, event bytes, arrival bytes,
    position integer, reason text, received_ms bigint
    """,
)

DEAD_LETTERS = table_of(
    "dead_letters",
    """
    id bytes key, workspace text, source text, kind text, arrival bytes, arrival_key text,
    position integer, reason text, attempts integer, failed_ms bigint, raw bytes,
    resolved_ms bigint null, route text null, delivery bytes null, last_error text null,
    headers bytes null, dismissed_by text null, dismissed_because text null
    """,
)

REFUSALS = table_of(
    "refusals",
    """
    workspace text key, source text key, reason text key, minute integer key, process bytes key,
    count bigint, body_bytes integer, headers bytes, sample bytes, peer text null
    """,
)

PULSES = table_of("pulses", "source text key, minute integer key, taken bigint, refused bigint")

POISON = table_of(
    "poison",
    "source text key, arrival_key text key, attempts integer, first_ms bigint",
)

ROUTES = table_of(
    "routes",
    """
    id text key, workspace text, name text, kind text, url text, settings bytes, sealed bytes,
    origin text, off text null, off_ms bigint null, created_ms bigint
    """,
)

# Which worker holds a route's lane until when, and when it asks an endpoint again that it takes to
# be down (0: it is not); for polled routes the numbers given and taken.
LANES = table_of(
    "lanes",
    "route text key, owner bytes, until_ms bigint, seq bigint, acknowledged bigint, down_ms bigint",
)

# The workers of all processes. `session` is the advisory lock that a worker's own connection holds
# as long as it lives; without one (SQLite, a connection pooler) only time tells.
WORKERS = table_of("workers", "owner bytes key, session integer null, until_ms bigint")


def work_columns(lane: str) -> list[Column[object]]:
    """Give the columns of whatever workers lease, try and end; `lane` names that of its lane."""
    return columns_of(
        f"""
        key bytes key, workspace text, {lane} text, body bytes null, state smallint, lane smallint,
        due_ms bigint, deadline_ms bigint, made_ms bigint, attempts integer, round_began integer,
        redeliveries integer, again boolean, token bigint, lease_ms bigint null,
        done_ms bigint null, status integer null, error text null, leased_by bytes null,
        leased_token bigint null
        """
    )


def attempt_columns(row: str) -> list[Column[object]]:
    """Give the columns of attempts; `row` names that of the piece of work."""
    return columns_of(
        f"""
        {row} bytes key, attempt integer key, at_ms bigint, latency_ms integer,
        status integer null, error text null, answer bytes null
        """
    )


DELIVERIES = Table(
    "deliveries",
    METADATA,
    *work_columns("route"),
    *columns_of(
        """
        event bytes, day integer, seq bigint null, reprocessing bytes null, redelivery bytes null
        """
    ),
)

ATTEMPTS = Table("attempts", METADATA, *attempt_columns("delivery"))

RERUNS = table_of(
    "reruns",
    """
    id bytes key, workspace text, kind text, filter bytes, state text, after_ms bigint,
    after_key bytes, total bigint, done bigint, created_ms bigint, changed_ms bigint
    """,
)
