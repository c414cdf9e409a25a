"""Inboxes, and the mail in them."""

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

# The lanes in which mail is read; each inbox has one of them.
LANES = tuple(f"digest-{number}" for number in range(4))

TABLES = (
    """
    CREATE TABLE domains (
        domain {text} NOT NULL PRIMARY KEY,
        workspace {text} NOT NULL,
        origin {text} NOT NULL,
        created_ms bigint NOT NULL
    )
    """,
    """
    CREATE TABLE inboxes (
        id {text} NOT NULL PRIMARY KEY,
        workspace {text} NOT NULL,
        address {text} NOT NULL,
        metadata {bytes} NOT NULL,
        created_ms bigint NOT NULL,
        expires_ms bigint,
        mails_max integer NOT NULL,
        bytes_max bigint NOT NULL,
        seq bigint NOT NULL,
        forgotten_seq bigint NOT NULL,
        mails bigint NOT NULL,
        bytes bigint NOT NULL,
        request_key {bytes},
        request_fingerprint {bytes}
    )
    """,
    "CREATE INDEX inboxes_workspace ON inboxes (workspace, created_ms, id)",
    "CREATE INDEX inboxes_expires ON inboxes (expires_ms) WHERE expires_ms IS NOT NULL",
    """
    CREATE UNIQUE INDEX inboxes_request ON inboxes (workspace, request_key)
    WHERE request_key IS NOT NULL
    """,
    """
    CREATE TABLE addresses (
        address {text} NOT NULL PRIMARY KEY,
        workspace {text} NOT NULL,
        inbox {text} NOT NULL,
        until_ms bigint
    )
    """,
    "CREATE INDEX addresses_inbox ON addresses (inbox)",
    """
    CREATE TABLE blobs (
        workspace {text} NOT NULL,
        sha256 {bytes} NOT NULL,
        content {bytes} NOT NULL,
        used_ms bigint NOT NULL,
        PRIMARY KEY (workspace, sha256)
    )
    """,
    """
    CREATE TABLE mails (
        key {bytes} NOT NULL PRIMARY KEY,
        workspace {text} NOT NULL,
        digester {text} NOT NULL,
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
        inbox {text} NOT NULL,
        seq bigint,
        address {text} NOT NULL,
        source {text} NOT NULL,
        account {text} NOT NULL,
        arrival {bytes} NOT NULL,
        sha256 {bytes} NOT NULL,
        format {text} NOT NULL,
        mail_bytes integer NOT NULL,
        facts {bytes} NOT NULL,
        message {text}
    )
    """,
    "CREATE INDEX mails_due ON mails (digester, lane, due_ms) WHERE state = 0",
    "CREATE INDEX mails_leased ON mails (lease_ms) WHERE state = 1",
    "CREATE UNIQUE INDEX mails_seq ON mails (inbox, seq) WHERE seq IS NOT NULL",
    "CREATE INDEX mails_unread ON mails (inbox, seq) WHERE message IS NULL AND seq IS NOT NULL",
    "CREATE INDEX mails_unmatched ON mails (workspace, key) WHERE seq IS NULL",
    "CREATE INDEX mails_sha256 ON mails (workspace, sha256)",
    """
    CREATE TABLE digest_attempts (
        mail {bytes} NOT NULL,
        attempt integer NOT NULL,
        at_ms bigint NOT NULL,
        latency_ms integer NOT NULL,
        status integer,
        error {text},
        answer {bytes},
        PRIMARY KEY (mail, attempt)
    ) {clustered}
    """,
    """
    CREATE TABLE messages (
        id {text} NOT NULL PRIMARY KEY,
        workspace {text} NOT NULL,
        inbox {text} NOT NULL,
        seq bigint NOT NULL,
        mail {bytes} NOT NULL,
        accepted_ms bigint NOT NULL,
        message_id {text} NOT NULL,
        thread {text} NOT NULL,
        kind {text} NOT NULL,
        sender {text} NOT NULL,
        subject {text} NOT NULL,
        document {bytes} NOT NULL
    )
    """,
    "CREATE UNIQUE INDEX messages_seq ON messages (inbox, seq)",
    "CREATE INDEX messages_thread ON messages (workspace, thread) WHERE thread <> ''",
    "CREATE INDEX messages_message_id ON messages (workspace, message_id) WHERE message_id <> ''",
    """
    CREATE TABLE attachments (
        message {text} NOT NULL,
        position integer NOT NULL,
        workspace {text} NOT NULL,
        id {text} NOT NULL,
        sha256 {bytes} NOT NULL,
        name {text} NOT NULL,
        type {text} NOT NULL,
        attachment_bytes integer NOT NULL,
        content_id {text},
        PRIMARY KEY (message, position)
    )
    """,
    "CREATE INDEX attachments_sha256 ON attachments (workspace, sha256)",
    """
    CREATE TABLE mail_refusals (
        workspace {text} NOT NULL,
        inbox {text} NOT NULL,
        address {text} NOT NULL,
        reason {text} NOT NULL,
        minute integer NOT NULL,
        process {bytes} NOT NULL,
        code integer NOT NULL,
        count bigint NOT NULL,
        PRIMARY KEY (workspace, inbox, address, reason, minute, process)
    )
    """,
    "CREATE INDEX mail_refusals_minute ON mail_refusals (minute)",
    """
    CREATE TABLE listeners (
        process {bytes} NOT NULL PRIMARY KEY,
        since_ms bigint NOT NULL,
        until_ms bigint NOT NULL
    )
    """,
)

SPELLINGS = {
    "sqlite": {"bytes": "blob", "text": "text", "clustered": "WITHOUT ROWID"},
    "postgresql": {"bytes": "bytea", "text": 'text COLLATE "C"', "clustered": ""},
}

ROWS = {
    "blob_row": "workspace {text}, sha256 bytea, content bytea",
    "mail_row": (
        "key bytea, workspace {text}, digester {text}, state smallint, deadline_s bigint, "
        "inbox {text}, address {text}, source {text}, account {text}, arrival bytea, "
        "sha256 bytea, format {text}, mail_bytes integer, facts bytea"
    ),
    "message_row": (
        "id {text}, workspace {text}, inbox {text}, seq bigint, mail bytea, accepted_ms bigint, "
        "message_id {text}, thread {text}, kind {text}, sender {text}, subject {text}, "
        "document bytea"
    ),
    "attachment_row": (
        "message {text}, position integer, workspace {text}, id {text}, sha256 bytea, "
        "name {text}, type {text}, attachment_bytes integer, content_id {text}"
    ),
    "digested_row": ("mail bytea, message {text}, sha256 bytea, format {text}, mail_bytes integer"),
}

# PostgreSQL numbers all mail of a batch in its one statement; SQLite writes row by row.
NUMBERING = """
CREATE TRIGGER mails_numbered AFTER INSERT ON mails WHEN NEW.seq IS NOT NULL
BEGIN
    UPDATE inboxes SET seq = NEW.seq, mails = mails + 1, bytes = bytes + NEW.mail_bytes
    WHERE id = NEW.inbox;
END
"""

# Rows change their state in place, as deliveries do. Mail is often compressed or encoded already,
# and bytes that are read whole need no cutting.
TUNE = (
    """
    ALTER TABLE mails SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0,
        autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0)
    """,
    "ALTER TABLE inboxes SET (fillfactor = 70)",
    "ALTER TABLE blobs ALTER COLUMN content SET STORAGE EXTERNAL",
)


def upgrade() -> None:
    """Make the tables of mail."""
    dialect = op.get_bind().dialect.name
    spelling = SPELLINGS[dialect]
    for table in TABLES:
        op.execute(table.format(**spelling))
    for lane in LANES:
        owner = "''" if dialect == "postgresql" else "x''"
        op.execute(f"INSERT INTO lanes VALUES ('{lane}', {owner}, 0, 0, 0)")  # noqa: S608
    if dialect == "sqlite":
        op.execute(NUMBERING)
        return
    for name, fields in ROWS.items():
        op.execute(f"CREATE TYPE {name} AS ({fields.format(**spelling)})")
    for statement in TUNE:
        op.execute(statement)
