"""Whose endpoint a worker takes to be down, for the processes that have no worker."""

from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the column; 0: it is not down. Workers of an older version leave it so."""
    op.execute("ALTER TABLE lanes ADD COLUMN down_ms bigint NOT NULL DEFAULT 0")
