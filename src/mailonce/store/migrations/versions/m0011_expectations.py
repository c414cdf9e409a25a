"""Expectations, artifacts and their consumptions; the public half of each API key."""

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

TABLES = (
    """
    CREATE TABLE expectations (
        id {bytes} NOT NULL PRIMARY KEY,
        workspace {text} NOT NULL,
        inbox {text} NOT NULL,
        address {text} NOT NULL,
        subject {text} NOT NULL,
        policy {bytes} NOT NULL,
        watermark bigint NOT NULL,
        opened_ms bigint NOT NULL,
        deadline_ms bigint NOT NULL,
        resends integer NOT NULL,
        granted integer NOT NULL,
        granted_ms bigint,
        state {text} NOT NULL,
        reason {text} NOT NULL,
        by {text} NOT NULL,
        reported boolean NOT NULL,
        request_key {bytes},
        request_fingerprint {bytes}
    )
    """,
    "CREATE INDEX expectations_workspace ON expectations (workspace, id)",
    "CREATE INDEX expectations_inbox ON expectations (inbox)",
    "CREATE INDEX expectations_due ON expectations (deadline_ms) WHERE state = 'pending'",
    """
    CREATE INDEX expectations_unreported ON expectations (id)
    WHERE state IN ('exhausted', 'expired') AND NOT reported
    """,
    """
    CREATE UNIQUE INDEX expectations_request ON expectations (workspace, request_key)
    WHERE request_key IS NOT NULL
    """,
    """
    CREATE TABLE expectation_mails (
        expectation {bytes} NOT NULL,
        message {text} NOT NULL,
        seq bigint NOT NULL,
        received_ms bigint NOT NULL,
        sender {text} NOT NULL,
        outcome {text} NOT NULL,
        reason {text} NOT NULL,
        is_stale boolean NOT NULL,
        verdict {bytes} NOT NULL,
        PRIMARY KEY (expectation, message)
    )
    """,
    """
    CREATE TABLE artifacts (
        id {bytes} NOT NULL PRIMARY KEY,
        workspace {text} NOT NULL,
        subject {text} NOT NULL,
        kind {text} NOT NULL,
        digest {bytes} NOT NULL,
        generation integer NOT NULL,
        made_ms bigint NOT NULL,
        token bigint NOT NULL,
        sealed {bytes}
    )
    """,
    """
    CREATE UNIQUE INDEX artifacts_identity
    ON artifacts (workspace, subject, kind, digest, generation)
    """,
    """
    CREATE TABLE consumptions (
        id {bytes} NOT NULL PRIMARY KEY,
        workspace {text} NOT NULL,
        expectation {bytes} NOT NULL,
        artifact {bytes} NOT NULL,
        by {text} NOT NULL,
        consume_key {bytes} NOT NULL,
        token bigint NOT NULL,
        state {text} NOT NULL,
        leased_ms bigint NOT NULL,
        lease_ms bigint NOT NULL,
        ended_ms bigint,
        holder {bytes},
        redemption {bytes}
    )
    """,
    "CREATE UNIQUE INDEX consumptions_holder ON consumptions (holder) WHERE holder IS NOT NULL",
    "CREATE UNIQUE INDEX consumptions_key ON consumptions (expectation, by, consume_key)",
    "CREATE INDEX consumptions_workspace ON consumptions (workspace, id)",
    "CREATE INDEX consumptions_artifact ON consumptions (artifact)",
    "CREATE INDEX consumptions_leased ON consumptions (lease_ms) WHERE state = 'leased'",
    """
    CREATE TABLE consumption_acts (
        consumption {bytes} NOT NULL,
        id {bytes} NOT NULL,
        at_ms bigint NOT NULL,
        act {text} NOT NULL,
        by {text} NOT NULL,
        PRIMARY KEY (consumption, id)
    ) {clustered}
    """,
    """
    CREATE TABLE child_keys (
        id {bytes} NOT NULL PRIMARY KEY,
        workspace {text} NOT NULL,
        uses integer NOT NULL,
        expires_ms bigint NOT NULL
    )
    """,
    "CREATE INDEX child_keys_expires ON child_keys (expires_ms)",
    # Keys that were made before have none, and no children.
    "ALTER TABLE keys ADD COLUMN public_half {bytes}",
)

SPELLINGS = {
    "sqlite": {"bytes": "blob", "text": "text", "clustered": "WITHOUT ROWID"},
    "postgresql": {"bytes": "bytea", "text": 'text COLLATE "C"', "clustered": ""},
}


def upgrade() -> None:
    """Make the tables of expectations."""
    spelling = SPELLINGS[op.get_bind().dialect.name]
    for table in TABLES:
        op.execute(table.format(**spelling))
