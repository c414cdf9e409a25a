"""Who works, and who leased what: so that a dead worker's leases need not run out."""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

# `leased_by` counts only where `leased_token` is the row's token: a worker of an older version
# leases without touching either.
STATEMENTS = (
    """
    CREATE TABLE workers (
        owner {bytes} NOT NULL PRIMARY KEY,
        session integer,
        until_ms bigint NOT NULL
    )
    """,
    "ALTER TABLE deliveries ADD COLUMN leased_by {bytes}",
    "ALTER TABLE deliveries ADD COLUMN leased_token bigint",
    "CREATE INDEX lanes_owner ON lanes (owner)",
)
SPELLINGS = {"sqlite": {"bytes": "blob"}, "postgresql": {"bytes": "bytea"}}


def upgrade() -> None:
    """Make the table of workers, and name the worker in each lease."""
    spelling = SPELLINGS[op.get_bind().dialect.name]
    for statement in STATEMENTS:
        op.execute(statement.format(**spelling))
