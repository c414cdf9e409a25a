"""Which redelivery made a delivery due, so that exactly those can be followed."""

from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the column; NULL: none did, or one that a process of an older version ran."""
    kind = "bytea" if op.get_context().dialect.name == "postgresql" else "blob"
    op.execute(f"ALTER TABLE deliveries ADD COLUMN redelivery {kind}")
