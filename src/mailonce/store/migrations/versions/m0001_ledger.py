"""The ledger: claims, arrivals, events, facts, suppressions, counts, and who may speak."""

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# {bytes}, {text}, {partitioned} and {clustered} are what the two databases spell differently.
# Text is compared bytewise in both, so that rows are locked in one order everywhere. Indexes start
# with what differs most: an insert then compares one column on its way down.
TABLES = (
    """
    CREATE TABLE head (
        one smallint NOT NULL PRIMARY KEY CHECK (one = 1),
        generation integer NOT NULL,
        rotated_ms bigint NOT NULL,
        configuration bigint NOT NULL
    )
    """,
    """
    CREATE TABLE workspaces (
        id {text} NOT NULL PRIMARY KEY,
        name {text} NOT NULL UNIQUE,
        created_ms bigint NOT NULL
    )
    """,
    """
    CREATE TABLE sources (
        id {text} NOT NULL PRIMARY KEY,
        workspace {text} NOT NULL,
        name {text} NOT NULL,
        provider {text} NOT NULL,
        account {text} NOT NULL,
        settings {bytes} NOT NULL,
        sealed {bytes} NOT NULL,
        origin {text} NOT NULL,
        created_ms bigint NOT NULL,
        UNIQUE (workspace, name)
    )
    """,
    """
    CREATE TABLE keys (
        id {text} NOT NULL PRIMARY KEY,
        workspace {text} NOT NULL,
        name {text} NOT NULL,
        scope {text} NOT NULL,
        digest {bytes} NOT NULL UNIQUE,
        created_ms bigint NOT NULL,
        revoked_ms bigint
    )
    """,
    """
    CREATE TABLE claims_0 (
        key {bytes} NOT NULL PRIMARY KEY,
        fingerprint {bytes} NOT NULL,
        owner {bytes} NOT NULL
    ) {clustered}
    """,
    """
    CREATE TABLE claims_1 (
        key {bytes} NOT NULL PRIMARY KEY,
        fingerprint {bytes} NOT NULL,
        owner {bytes} NOT NULL
    ) {clustered}
    """,
    """
    CREATE TABLE arrivals (
        day integer NOT NULL,
        id {bytes} NOT NULL,
        received_ms bigint NOT NULL,
        workspace {text} NOT NULL,
        source {text} NOT NULL,
        arrival_key {text} NOT NULL,
        status {text} NOT NULL,
        events integer NOT NULL,
        new integer NOT NULL,
        headers {bytes} NOT NULL,
        body_bytes integer NOT NULL,
        body {bytes},
        PRIMARY KEY (id, day)
    ) {partitioned}
    """,
    """
    CREATE TABLE events (
        day integer NOT NULL,
        id {bytes} NOT NULL,
        received_ms bigint NOT NULL,
        key {bytes} NOT NULL,
        workspace {text} NOT NULL,
        source {text} NOT NULL,
        account {text} NOT NULL,
        type {text} NOT NULL,
        bounce {text},
        message_id {text} NOT NULL,
        recipient {text} NOT NULL,
        occurred_ms bigint,
        arrival {bytes} NOT NULL,
        position integer NOT NULL,
        detail {bytes} NOT NULL,
        conflict_with {bytes},
        PRIMARY KEY (id, day)
    ) {partitioned}
    """,
    "CREATE INDEX events_message ON events (message_id)",
    "CREATE INDEX events_recipient ON events (recipient)",
    """
    CREATE TABLE copies (
        day integer NOT NULL,
        arrival {bytes} NOT NULL,
        position integer NOT NULL,
        event {bytes} NOT NULL,
        recognised_by {text} NOT NULL,
        PRIMARY KEY (arrival, position, day)
    ) {partitioned}
    """,
    "CREATE INDEX copies_event ON copies (event)",
    """
    CREATE TABLE facts (
        workspace {text} NOT NULL,
        message_id {text} NOT NULL,
        recipient {text} NOT NULL,
        account {text} NOT NULL,
        kind smallint NOT NULL,
        count bigint NOT NULL,
        first {bytes},
        last {bytes},
        changed_ms bigint NOT NULL,
        PRIMARY KEY (message_id, recipient, workspace, account, kind)
    ) {clustered}
    """,
    """
    CREATE TABLE suppressions (
        workspace {text} NOT NULL,
        address {text} NOT NULL,
        stream {text} NOT NULL,
        cause {text} NOT NULL,
        event {bytes} NOT NULL,
        lifts boolean NOT NULL,
        lifted boolean NOT NULL,
        stamp {bytes},
        reason {text},
        said_ms bigint NOT NULL,
        PRIMARY KEY (workspace, address, stream, cause, event)
    ) {clustered}
    """,
    """
    CREATE TABLE counts (
        workspace {text} NOT NULL,
        day integer NOT NULL,
        source {text} NOT NULL,
        type {text} NOT NULL,
        batch {bytes} NOT NULL,
        count bigint NOT NULL,
        PRIMARY KEY (workspace, day, source, type, batch)
    ) {clustered}
    """,
    """
    CREATE TABLE conflicts (
        id {bytes} NOT NULL PRIMARY KEY,
        workspace {text} NOT NULL,
        source {text} NOT NULL,
        key {bytes} NOT NULL,
        event {bytes} NOT NULL,
        arrival {bytes} NOT NULL,
        position integer NOT NULL,
        reason {text} NOT NULL,
        received_ms bigint NOT NULL
    )
    """,
    """
    CREATE TABLE dead_letters (
        id {bytes} NOT NULL PRIMARY KEY,
        workspace {text} NOT NULL,
        source {text} NOT NULL,
        kind {text} NOT NULL,
        arrival {bytes} NOT NULL,
        arrival_key {text} NOT NULL,
        position integer NOT NULL,
        reason {text} NOT NULL,
        attempts integer NOT NULL,
        failed_ms bigint NOT NULL,
        raw {bytes} NOT NULL,
        resolved_ms bigint
    )
    """,
    """
    CREATE TABLE refusals (
        workspace {text} NOT NULL,
        source {text} NOT NULL,
        reason {text} NOT NULL,
        minute integer NOT NULL,
        process {bytes} NOT NULL,
        count bigint NOT NULL,
        body_bytes integer NOT NULL,
        headers {bytes} NOT NULL,
        sample {bytes} NOT NULL,
        PRIMARY KEY (workspace, source, reason, minute, process)
    )
    """,
    """
    CREATE TABLE pulses (
        source {text} NOT NULL,
        minute integer NOT NULL,
        taken bigint NOT NULL,
        refused bigint NOT NULL,
        PRIMARY KEY (source, minute)
    )
    """,
    """
    CREATE TABLE poison (
        source {text} NOT NULL,
        arrival_key {text} NOT NULL,
        attempts integer NOT NULL,
        first_ms bigint NOT NULL,
        PRIMARY KEY (source, arrival_key)
    )
    """,
    "INSERT INTO head VALUES (1, 0, 0, 1)",
    "INSERT INTO workspaces VALUES ('default', 'default', 0)",
)

SPELLINGS = {
    "sqlite": {
        "bytes": "blob",
        "text": "text",
        "partitioned": "",
        "clustered": "WITHOUT ROWID",
    },
    "postgresql": {
        "bytes": "bytea",
        "text": 'text COLLATE "C"',
        "partitioned": "PARTITION BY RANGE (day)",
        "clustered": "",
    },
}

# Turns a broken expectation into an error, so that the one statement of a batch rolls back whole.
EXPECT = """
CREATE FUNCTION mailonce_expect(ok boolean, code text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF NOT ok THEN
        RAISE EXCEPTION 'an expectation of mailonce does not hold' USING ERRCODE = code;
    END IF;
    RETURN ok;
END
$$
"""

# What a batch hands over, one array of each: a row is encoded in a fraction of the time that an
# array per column takes. Their fields are those of the rows in core/ledger/entry.py, in that order;
# a later version that needs other fields makes a type of another name, because old doors go on.
ROWS = {
    "claim_row": "key bytea, fingerprint bytea, owner bytea",
    "arrival_row": (
        "id bytea, workspace {text}, source {text}, arrival_key {text}, status {text}, "
        "events integer, new integer, headers bytea, body_bytes integer, body bytea"
    ),
    "event_row": (
        "id bytea, key bytea, workspace {text}, source {text}, account {text}, type {text}, "
        "bounce {text}, message_id {text}, recipient {text}, occurred_ms bigint, arrival bytea, "
        "position integer, detail bytea, conflict_with bytea"
    ),
    "copy_row": "arrival bytea, position integer, event bytea, recognised_by {text}",
    "fact_row": (
        "workspace {text}, message_id {text}, recipient {text}, account {text}, kind smallint, "
        "times bigint, first bytea, last bytea"
    ),
    "said_row": (
        "workspace {text}, address {text}, stream {text}, cause {text}, event bytea, "
        "lifts boolean, stamp bytea, reason {text}"
    ),
    "count_row": "workspace {text}, source {text}, type {text}, times bigint",
    "conflict_row": (
        "id bytea, workspace {text}, source {text}, key bytea, event bytea, arrival bytea, "
        "position integer, reason {text}"
    ),
    "dead_row": (
        "id bytea, workspace {text}, source {text}, arrival bytea, arrival_key {text}, "
        "position integer, reason {text}, raw bytea"
    ),
}

# The ledger's hot tables see inserts all day and few updates; vacuum them by rows, not by share.
TUNE = (
    "ALTER TABLE facts SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02)",
    "CREATE INDEX facts_changed ON facts USING brin (changed_ms)",
)


def upgrade() -> None:
    """Make all tables."""
    dialect = op.get_bind().dialect.name
    spelling = SPELLINGS[dialect]
    for table in TABLES:
        op.execute(table.format(**spelling))
    if dialect == "postgresql":
        op.execute(EXPECT)
        for name, fields in ROWS.items():
            op.execute(f"CREATE TYPE {name} AS ({fields.format(**spelling)})")
        for statement in TUNE:
            op.execute(statement)
