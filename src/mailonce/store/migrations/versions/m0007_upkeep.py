"""A row that each process writes to see whether it can, and the window that all of them keep."""

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table and the column."""
    bytes_ = "bytea" if op.get_bind().dialect.name == "postgresql" else "blob"
    op.execute(
        f"CREATE TABLE probes (process {bytes_} NOT NULL PRIMARY KEY, written_ms bigint NOT NULL)"
    )
    # 0 where no process of this version has named it yet.
    op.execute("ALTER TABLE head ADD COLUMN window_days integer NOT NULL DEFAULT 0")
