"""Sources can be switched off, as routes and senders can."""

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

TEXT = {"sqlite": "text", "postgresql": 'text COLLATE "C"'}


def upgrade() -> None:
    """Add why and since when a source is off."""
    text = TEXT[op.get_bind().dialect.name]
    op.execute(f"ALTER TABLE sources ADD COLUMN off {text}")
    op.execute("ALTER TABLE sources ADD COLUMN off_ms bigint")
