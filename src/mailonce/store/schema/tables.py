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


def _key(name: str, type_: type) -> Column[object]:
    return Column(name, type_, primary_key=True)


def _column(name: str, type_: type, *, nullable: bool = False) -> Column[object]:
    return Column(name, type_, nullable=nullable)


HEAD = Table(
    "head",
    METADATA,
    _key("one", SmallInteger),
    _column("generation", Integer),
    _column("rotated_ms", BigInteger),
    _column("configuration", BigInteger),
    _column("window_days", Integer),
    _column("clock_ms", BigInteger),
    _column("facts_days", Integer),
)

# Written by a process to check that the database takes a write; see /readyz.
PROBES = Table(
    "probes",
    METADATA,
    _key("process", LargeBinary),
    _column("written_ms", BigInteger),
)

WORKSPACES = Table(
    "workspaces",
    METADATA,
    _key("id", Text),
    _column("name", Text),
    _column("created_ms", BigInteger),
)

SOURCES = Table(
    "sources",
    METADATA,
    _key("id", Text),
    _column("workspace", Text),
    _column("name", Text),
    _column("provider", Text),
    _column("account", Text),
    _column("settings", LargeBinary),
    _column("sealed", LargeBinary),
    _column("origin", Text),
    _column("created_ms", BigInteger),
)

KEYS = Table(
    "keys",
    METADATA,
    _key("id", Text),
    _column("workspace", Text),
    _column("name", Text),
    _column("scope", Text),
    _column("digest", LargeBinary),
    _column("created_ms", BigInteger),
    _column("revoked_ms", BigInteger, nullable=True),
)

CLAIMS = tuple(
    Table(
        f"claims_{parity}",
        METADATA,
        _key("key", LargeBinary),
        _column("fingerprint", LargeBinary),
        _column("owner", LargeBinary),
    )
    for parity in (0, 1)
)

ARRIVALS = Table(
    "arrivals",
    METADATA,
    _key("day", Integer),
    _key("id", LargeBinary),
    _column("received_ms", BigInteger),
    _column("workspace", Text),
    _column("source", Text),
    _column("arrival_key", Text),
    _column("status", Text),
    _column("events", Integer),
    _column("new", Integer),
    _column("headers", LargeBinary),
    _column("body_bytes", Integer),
    _column("body", LargeBinary, nullable=True),
)

EVENTS = Table(
    "events",
    METADATA,
    _key("day", Integer),
    _key("id", LargeBinary),
    _column("received_ms", BigInteger),
    _column("key", LargeBinary),
    _column("workspace", Text),
    _column("source", Text),
    _column("account", Text),
    _column("type", Text),
    _column("bounce", Text, nullable=True),
    _column("message_id", Text),
    _column("recipient", Text),
    _column("occurred_ms", BigInteger, nullable=True),
    _column("arrival", LargeBinary),
    _column("position", Integer),
    _column("detail", LargeBinary),
    _column("conflict_with", LargeBinary, nullable=True),
    _column("body", LargeBinary, nullable=True),
)

COPIES = Table(
    "copies",
    METADATA,
    _key("day", Integer),
    _key("arrival", LargeBinary),
    _key("position", Integer),
    _column("event", LargeBinary),
    _column("recognised_by", Text),
)

FACTS = Table(
    "facts",
    METADATA,
    _key("workspace", Text),
    _key("message_id", Text),
    _key("recipient", Text),
    _key("account", Text),
    _key("kind", SmallInteger),
    _column("count", BigInteger),
    _column("first", LargeBinary, nullable=True),
    _column("last", LargeBinary, nullable=True),
    _column("changed_ms", BigInteger),
)

SUPPRESSIONS = Table(
    "suppressions",
    METADATA,
    _key("workspace", Text),
    _key("address", Text),
    _key("stream", Text),
    _key("cause", Text),
    _key("event", LargeBinary),
    _column("lifts", Boolean),
    _column("lifted", Boolean),
    _column("stamp", LargeBinary, nullable=True),
    _column("reason", Text, nullable=True),
    _column("said_ms", BigInteger),
)

# Deltas of batches, and with an empty batch their fold: stats are the sum of both.
COUNTS = Table(
    "counts",
    METADATA,
    _key("workspace", Text),
    _key("day", Integer),
    _key("source", Text),
    _key("type", Text),
    _key("batch", LargeBinary),
    _column("count", BigInteger),
)

CONFLICTS = Table(
    "conflicts",
    METADATA,
    _key("id", LargeBinary),
    _column("workspace", Text),
    _column("source", Text),
    _column("key", LargeBinary),
    _column("event", LargeBinary),
    _column("arrival", LargeBinary),
    _column("position", Integer),
    _column("reason", Text),
    _column("received_ms", BigInteger),
)

DEAD_LETTERS = Table(
    "dead_letters",
    METADATA,
    _key("id", LargeBinary),
    _column("workspace", Text),
    _column("source", Text),
    _column("kind", Text),
    _column("arrival", LargeBinary),
    _column("arrival_key", Text),
    _column("position", Integer),
    _column("reason", Text),
    _column("attempts", Integer),
    _column("failed_ms", BigInteger),
    _column("raw", LargeBinary),
    _column("resolved_ms", BigInteger, nullable=True),
    _column("route", Text, nullable=True),
    _column("delivery", LargeBinary, nullable=True),
    _column("last_error", Text, nullable=True),
    _column("headers", LargeBinary, nullable=True),
)

REFUSALS = Table(
    "refusals",
    METADATA,
    _key("workspace", Text),
    _key("source", Text),
    _key("reason", Text),
    _key("minute", Integer),
    _key("process", LargeBinary),
    _column("count", BigInteger),
    _column("body_bytes", Integer),
    _column("headers", LargeBinary),
    _column("sample", LargeBinary),
)

PULSES = Table(
    "pulses",
    METADATA,
    _key("source", Text),
    _key("minute", Integer),
    _column("taken", BigInteger),
    _column("refused", BigInteger),
)

POISON = Table(
    "poison",
    METADATA,
    _key("source", Text),
    _key("arrival_key", Text),
    _column("attempts", Integer),
    _column("first_ms", BigInteger),
)

ROUTES = Table(
    "routes",
    METADATA,
    _key("id", Text),
    _column("workspace", Text),
    _column("name", Text),
    _column("kind", Text),
    _column("url", Text),
    _column("settings", LargeBinary),
    _column("sealed", LargeBinary),
    _column("origin", Text),
    _column("off", Text, nullable=True),
    _column("off_ms", BigInteger, nullable=True),
    _column("created_ms", BigInteger),
)

# Which worker holds a route's lane until when; for polled routes the numbers given and taken.
LANES = Table(
    "lanes",
    METADATA,
    _key("route", Text),
    _column("owner", LargeBinary),
    _column("until_ms", BigInteger),
    _column("seq", BigInteger),
    _column("acknowledged", BigInteger),
)

# The workers of all processes. `session` is the advisory lock that a worker's own connection holds
# as long as it lives; without one (SQLite, a connection pooler) only time tells.
WORKERS = Table(
    "workers",
    METADATA,
    _key("owner", LargeBinary),
    _column("session", Integer, nullable=True),
    _column("until_ms", BigInteger),
)


def work_columns(lane: str) -> list[Column[object]]:
    """Give the columns of whatever workers lease, try and end; `lane` names that of its lane."""
    return [
        _key("key", LargeBinary),
        _column("workspace", Text),
        _column(lane, Text),
        _column("body", LargeBinary, nullable=True),
        _column("state", SmallInteger),
        _column("lane", SmallInteger),
        _column("due_ms", BigInteger),
        _column("deadline_ms", BigInteger),
        _column("made_ms", BigInteger),
        _column("attempts", Integer),
        _column("round_began", Integer),
        _column("redeliveries", Integer),
        _column("again", Boolean),
        _column("token", BigInteger),
        _column("lease_ms", BigInteger, nullable=True),
        _column("done_ms", BigInteger, nullable=True),
        _column("status", Integer, nullable=True),
        _column("error", Text, nullable=True),
        _column("leased_by", LargeBinary, nullable=True),
        _column("leased_token", BigInteger, nullable=True),
    ]


def attempt_columns(row: str) -> list[Column[object]]:
    """Give the columns of attempts; `row` names that of the piece of work."""
    return [
        _key(row, LargeBinary),
        _key("attempt", Integer),
        _column("at_ms", BigInteger),
        _column("latency_ms", Integer),
        _column("status", Integer, nullable=True),
        _column("error", Text, nullable=True),
        _column("answer", LargeBinary, nullable=True),
    ]


DELIVERIES = Table(
    "deliveries",
    METADATA,
    *work_columns("route"),
    _column("event", LargeBinary),
    _column("day", Integer),
    _column("seq", BigInteger, nullable=True),
    _column("reprocessing", LargeBinary, nullable=True),
)

ATTEMPTS = Table("attempts", METADATA, *attempt_columns("delivery"))

RERUNS = Table(
    "reruns",
    METADATA,
    _key("id", LargeBinary),
    _column("workspace", Text),
    _column("kind", Text),
    _column("filter", LargeBinary),
    _column("state", Text),
    _column("after_ms", BigInteger),
    _column("after_key", LargeBinary),
    _column("total", BigInteger),
    _column("done", BigInteger),
    _column("created_ms", BigInteger),
    _column("changed_ms", BigInteger),
)
