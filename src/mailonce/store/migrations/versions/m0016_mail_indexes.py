"""Accepting a mail writes fewer indexes: which mails share bytes, and which were read."""

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

TEXT = 'text COLLATE "C"'
BYTES = {"sqlite": "blob", "postgresql": "bytea"}
COLUMNS = (
    "ALTER TABLE blobs ADD COLUMN mail {bytes}",
    # Of mail that is there nobody knows, and a process of the former version does not say.
    "ALTER TABLE mails ADD COLUMN shares_blob boolean NOT NULL DEFAULT true",
)
INDEXES = (
    "DROP INDEX mails_sha256",
    "CREATE INDEX mails_shared ON mails (workspace, sha256) WHERE shares_blob",
    "DROP INDEX mails_seq",
    "DROP INDEX mails_unread",
    """
    CREATE UNIQUE INDEX mails_unread ON mails (inbox, seq)
    WHERE message IS NULL AND seq IS NOT NULL
    """,
    """
    CREATE UNIQUE INDEX mails_read ON mails (inbox, seq)
    WHERE message IS NOT NULL AND seq IS NOT NULL
    """,
)
# Processes of the former version still use `blob_row`.
BLOB_ROW = f"CREATE TYPE blob_row_2 AS (workspace {TEXT}, sha256 bytea, content bytea, mail bytea)"


def upgrade() -> None:
    """Add the columns, and replace the indexes; each mail that is there is in the new ones."""
    dialect = op.get_bind().dialect.name
    for statement in COLUMNS:
        op.execute(statement.format(bytes=BYTES[dialect]))
    for statement in INDEXES:
        op.execute(statement)
    if dialect == "postgresql":
        op.execute(BLOB_ROW)
