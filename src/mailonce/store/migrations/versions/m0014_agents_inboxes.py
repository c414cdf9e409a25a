"""Which agent's key made an inbox, so that no other agent expects mail there."""

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

TEXT = {"sqlite": "text", "postgresql": 'text COLLATE "C"'}


def upgrade() -> None:
    """Add the column; inboxes that are there stay open to all agents of their workspace."""
    text = TEXT[op.get_bind().dialect.name]
    op.execute(f"ALTER TABLE inboxes ADD COLUMN agent {text}")
