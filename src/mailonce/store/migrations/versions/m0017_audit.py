"""The audit log: who changed what, when, and on what."""

from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

TYPES = {"sqlite": ("blob", "text"), "postgresql": ("bytea", 'text COLLATE "C"')}


def upgrade() -> None:
    """Make the table; a list is read from its newest entry on."""
    bytes_, text = TYPES[op.get_bind().dialect.name]
    op.execute(
        f"CREATE TABLE audit (id {bytes_} NOT NULL PRIMARY KEY, workspace {text} NOT NULL, "
        f'at_ms bigint NOT NULL, "by" {text} NOT NULL, operation {text} NOT NULL, '
        f"object {text} NOT NULL)"
    )
    op.execute("CREATE INDEX audit_workspace ON audit (workspace, id)")
