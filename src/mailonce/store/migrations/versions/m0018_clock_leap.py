"""From when on old things are deleted, where the clock leaped ahead."""

from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the column; 0: the clock has not leaped."""
    op.execute("ALTER TABLE head ADD COLUMN forget_from_ms bigint NOT NULL DEFAULT 0")
