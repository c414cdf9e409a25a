"""What the database's clock last said, so that a step back is noticed; how long facts are kept."""

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the columns; 0 where nobody has written them yet."""
    op.execute("ALTER TABLE head ADD COLUMN clock_ms bigint NOT NULL DEFAULT 0")
    op.execute("ALTER TABLE head ADD COLUMN facts_days integer NOT NULL DEFAULT 0")
