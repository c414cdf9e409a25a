"""Routes, and what is owed to them."""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# A route is what a person changes; its lane is what workers change, many times a second.
TABLES = (
    """
    CREATE TABLE routes (
        id {text} NOT NULL PRIMARY KEY,
        workspace {text} NOT NULL,
        name {text} NOT NULL,
        kind {text} NOT NULL,
        url {text} NOT NULL,
        settings {bytes} NOT NULL,
        sealed {bytes} NOT NULL,
        origin {text} NOT NULL,
        off {text},
        off_ms bigint,
        created_ms bigint NOT NULL,
        UNIQUE (workspace, name)
    )
    """,
    """
    CREATE TABLE lanes (
        route {text} NOT NULL PRIMARY KEY,
        owner {bytes} NOT NULL,
        until_ms bigint NOT NULL,
        seq bigint NOT NULL,
        acknowledged bigint NOT NULL
    )
    """,
    """
    CREATE TABLE deliveries (
        key {bytes} NOT NULL PRIMARY KEY,
        workspace {text} NOT NULL,
        route {text} NOT NULL,
        event {bytes} NOT NULL,
        day integer NOT NULL,
        body {bytes},
        state smallint NOT NULL,
        lane smallint NOT NULL,
        due_ms bigint NOT NULL,
        deadline_ms bigint NOT NULL,
        made_ms bigint NOT NULL,
        attempts integer NOT NULL,
        round_began integer NOT NULL,
        redeliveries integer NOT NULL,
        again boolean NOT NULL,
        token bigint NOT NULL,
        lease_ms bigint,
        done_ms bigint,
        status integer,
        error {text},
        seq bigint,
        reprocessing {bytes}
    ) {clustered}
    """,
    "CREATE INDEX deliveries_due ON deliveries (route, lane, due_ms) WHERE state = 0",
    "CREATE INDEX deliveries_leased ON deliveries (lease_ms) WHERE state = 1",
    "CREATE INDEX deliveries_made ON deliveries (made_ms, key)",
    "CREATE INDEX deliveries_seq ON deliveries (route, seq) WHERE seq IS NOT NULL",
    """
    CREATE TABLE attempts (
        delivery {bytes} NOT NULL,
        attempt integer NOT NULL,
        at_ms bigint NOT NULL,
        latency_ms integer NOT NULL,
        status integer,
        error {text},
        answer {bytes},
        PRIMARY KEY (delivery, attempt)
    ) {clustered}
    """,
    """
    CREATE TABLE reruns (
        id {bytes} NOT NULL PRIMARY KEY,
        workspace {text} NOT NULL,
        kind {text} NOT NULL,
        filter {bytes} NOT NULL,
        state {text} NOT NULL,
        after_ms bigint NOT NULL,
        after_key {bytes} NOT NULL,
        total bigint NOT NULL,
        done bigint NOT NULL,
        created_ms bigint NOT NULL,
        changed_ms bigint NOT NULL
    )
    """,
    "ALTER TABLE events ADD COLUMN body {bytes}",
    "ALTER TABLE dead_letters ADD COLUMN route {text}",
    "ALTER TABLE dead_letters ADD COLUMN delivery {bytes}",
    "ALTER TABLE dead_letters ADD COLUMN last_error {text}",
    "CREATE INDEX dead_letters_delivery ON dead_letters (delivery) WHERE delivery IS NOT NULL",
    "CREATE INDEX dead_letters_open ON dead_letters (workspace, id) WHERE resolved_ms IS NULL",
)

SPELLINGS = {
    "sqlite": {"bytes": "blob", "text": "text", "clustered": "WITHOUT ROWID"},
    "postgresql": {"bytes": "bytea", "text": 'text COLLATE "C"', "clustered": ""},
}

ROWS = {
    "event_row_2": (
        "id bytea, key bytea, workspace {text}, source {text}, account {text}, type {text}, "
        "bounce {text}, message_id {text}, recipient {text}, occurred_ms bigint, arrival bytea, "
        "position integer, detail bytea, conflict_with bytea, body bytea"
    ),
    "owed_row": (
        "key bytea, workspace {text}, route {text}, event bytea, body bytea, deadline_s bigint"
    ),
}

# Rows change their state in place: leave room for it, and clean up by rows, not by share.
TUNE = """
ALTER TABLE deliveries SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0)
"""


def upgrade() -> None:
    """Make the tables of the outgoing side."""
    dialect = op.get_bind().dialect.name
    spelling = SPELLINGS[dialect]
    for table in TABLES:
        op.execute(table.format(**spelling))
    if dialect == "postgresql":
        for name, fields in ROWS.items():
            op.execute(f"CREATE TYPE {name} AS ({fields.format(**spelling)})")
        op.execute(TUNE)
