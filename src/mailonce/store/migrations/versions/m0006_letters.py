"""A dead letter keeps the headers that reading it needs, and counts the copies of it."""

from alembic import op

revision = "0006"
down_revision = "0004"
branch_labels = None
depends_on = None

SPELLINGS = {"sqlite": "blob", "postgresql": "bytea"}
TEXT = 'text COLLATE "C"'

# The older type stays: doors of an older version use it until they are replaced.
ROWS = {
    "dead_row_2": (
        "id bytea, workspace {text}, source {text}, arrival bytea, arrival_key {text}, "
        "position integer, reason {text}, attempts integer, headers bytea, raw bytea"
    ),
    "tried_row": "letter bytea, arrival bytea",
}


def upgrade() -> None:
    """Add the column, which older letters leave empty, and make the row types."""
    dialect = op.get_bind().dialect.name
    op.execute(f"ALTER TABLE dead_letters ADD COLUMN headers {SPELLINGS[dialect]}")
    if dialect == "postgresql":
        for name, fields in ROWS.items():
            op.execute(f"CREATE TYPE {name} AS ({fields.format(text=TEXT)})")
