"""Room in the row that each process writes to see whether it can."""

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    bytes_ = "bytea" if op.get_bind().dialect.name == "postgresql" else "blob"
    op.execute(f"ALTER TABLE probes ADD COLUMN padding {bytes_}")
