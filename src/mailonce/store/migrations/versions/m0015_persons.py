"""Who lifted a suppression or dismissed a dead letter, and where a refused arrival came from."""

from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

TEXT = {"sqlite": "text", "postgresql": 'text COLLATE "C"'}
COLUMNS = (
    ("suppressions", "by_key"),
    ("dead_letters", "dismissed_by"),
    ("dead_letters", "dismissed_because"),
    ("refusals", "peer"),
)


def upgrade() -> None:
    """Add the columns; of what is there, nobody knows."""
    text = TEXT[op.get_bind().dialect.name]
    for table, column in COLUMNS:
        op.execute(f"ALTER TABLE {table} ADD COLUMN {column} {text}")
