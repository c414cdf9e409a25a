"""A row of the log that brings its arrival along, too: most arrivals tell of one event."""

from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

TEXT = 'text COLLATE "C"'

# The older types stay: doors of an older version use them until they are replaced.
EVENT_ROW = (
    "id bytea, key bytea, workspace {text}, source {text}, account {text}, type {text}, "
    "bounce {text}, message_id {text}, recipient {text}, occurred_ms bigint, arrival bytea, "
    "position integer, detail bytea, conflict_with bytea, body bytea, fingerprint bytea, "
    "kind smallint, times bigint, first bytea, last bytea, arrival_key {text}, status {text}, "
    "events integer, new integer, headers bytea, body_bytes integer, arrival_body bytea"
)


def upgrade() -> None:
    """Make the row type."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute(f"CREATE TYPE event_row_4 AS ({EVENT_ROW.format(text=TEXT)})")
