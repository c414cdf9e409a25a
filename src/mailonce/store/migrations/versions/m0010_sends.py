"""Sends, the senders that take them, and templates."""

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

TABLES = (
    """
    CREATE TABLE senders (
        id {text} NOT NULL PRIMARY KEY,
        workspace {text} NOT NULL,
        name {text} NOT NULL,
        provider {text} NOT NULL,
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
    CREATE TABLE sends (
        key {bytes} NOT NULL PRIMARY KEY,
        workspace {text} NOT NULL,
        sender {text} NOT NULL,
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
        leased_by {bytes},
        leased_token bigint,
        id {bytes} NOT NULL,
        send_state smallint NOT NULL,
        flight integer NOT NULL,
        tries integer NOT NULL,
        is_repeat boolean NOT NULL,
        flight_ms bigint,
        message_id {text},
        proof {bytes},
        content {bytes} NOT NULL,
        send_key {text} NOT NULL,
        fingerprint {bytes} NOT NULL,
        parts {bytes} NOT NULL,
        recipient {text} NOT NULL,
        address {text} NOT NULL,
        name {text} NOT NULL,
        stream {text} NOT NULL,
        template {text},
        template_version integer,
        cause_id {text},
        is_forced boolean NOT NULL,
        is_resent boolean NOT NULL
    )
    """,
    "CREATE INDEX sends_due ON sends (sender, lane, due_ms) WHERE state = 0",
    "CREATE INDEX sends_leased ON sends (lease_ms) WHERE state = 1",
    "CREATE INDEX sends_made ON sends (made_ms, key)",
    "CREATE UNIQUE INDEX sends_id ON sends (id)",
    "CREATE INDEX sends_key ON sends (workspace, send_key)",
    "CREATE INDEX sends_recipient ON sends (workspace, recipient, made_ms)",
    "CREATE INDEX sends_message ON sends (workspace, message_id) WHERE message_id IS NOT NULL",
    "CREATE INDEX sends_unknown ON sends (workspace, made_ms, key) WHERE send_state = 4",
    # What is not settled keeps its content.
    "CREATE INDEX sends_open ON sends (content) WHERE done_ms IS NULL",
    # Which mails the key of a request stands for.
    """
    CREATE TABLE send_requests (
        key {bytes} NOT NULL PRIMARY KEY,
        workspace {text} NOT NULL,
        fingerprint {bytes} NOT NULL,
        made_ms bigint NOT NULL
    )
    """,
    "CREATE INDEX send_requests_made ON send_requests (made_ms)",
    """
    CREATE TABLE send_attempts (
        send {bytes} NOT NULL,
        attempt integer NOT NULL,
        at_ms bigint NOT NULL,
        latency_ms integer NOT NULL,
        status integer,
        error {text},
        answer {bytes},
        step {text},
        outcome {text},
        sender {text},
        message_id {text},
        PRIMARY KEY (send, attempt)
    ) {clustered}
    """,
    """
    CREATE TABLE send_contents (
        id {bytes} NOT NULL PRIMARY KEY,
        workspace {text} NOT NULL,
        body {bytes} NOT NULL,
        made_ms bigint NOT NULL
    )
    """,
    "CREATE INDEX send_contents_made ON send_contents (made_ms)",
    """
    CREATE TABLE send_acts (
        send {bytes} NOT NULL,
        id {bytes} NOT NULL,
        at_ms bigint NOT NULL,
        act {text} NOT NULL,
        by {text} NOT NULL,
        reason {text},
        PRIMARY KEY (send, id)
    ) {clustered}
    """,
    """
    CREATE TABLE templates (
        workspace {text} NOT NULL,
        name {text} NOT NULL,
        version integer NOT NULL,
        subject {text} NOT NULL,
        html {text},
        text {text},
        created_ms bigint NOT NULL,
        PRIMARY KEY (workspace, name, version)
    )
    """,
)

SPELLINGS = {
    "sqlite": {"bytes": "blob", "text": "text", "clustered": "WITHOUT ROWID"},
    "postgresql": {"bytes": "bytea", "text": 'text COLLATE "C"', "clustered": ""},
}

ROWS = {
    "send_row": (
        "key bytea, id bytea, workspace {text}, sender {text}, content bytea, state smallint, "
        "send_state smallint, lane smallint, made_ms bigint, due_ms bigint, deadline_ms bigint, "
        "send_key {text}, "
        "fingerprint bytea, parts bytea, recipient {text}, address {text}, "
        "name {text}, stream {text}, template {text}, template_version integer, cause_id {text}, "
        "error {text}, is_forced boolean"
    ),
    "send_request_row": "key bytea, workspace {text}, fingerprint bytea",
    "send_content_row": "id bytea, workspace {text}, body bytea",
    "send_act_row": ("send bytea, id bytea, at_ms bigint, act {text}, by {text}, reason {text}"),
    "send_proof_row": (
        "key bytea, workspace {text}, recipient {text}, message_id {text}, event bytea"
    ),
}

# Rows change their state in place, as deliveries do.
TUNE = """
ALTER TABLE sends SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0)
"""


def upgrade() -> None:
    """Make the tables of sends."""
    dialect = op.get_bind().dialect.name
    spelling = SPELLINGS[dialect]
    for table in TABLES:
        op.execute(table.format(**spelling))
    if dialect == "postgresql":
        for name, fields in ROWS.items():
            op.execute(f"CREATE TYPE {name} AS ({fields.format(**spelling)})")
        op.execute(TUNE)
