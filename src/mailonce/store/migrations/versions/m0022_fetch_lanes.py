"""Lanes for mail that has to be fetched from a provider.

No mail is moved here: whoever finds such a mail in a lane of inboxes, from before or from a process
of an older version that runs beside, moves it (`inbox/digest_mail.py`).
"""

from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

FETCH_LANES = tuple(f"fetch-{number}" for number in range(8))


def upgrade() -> None:
    """Make the lanes; processes of an older version never take them."""
    owner = "''" if op.get_context().dialect.name == "postgresql" else "x''"
    for lane in FETCH_LANES:
        op.execute(
            "INSERT INTO lanes (route, owner, until_ms, seq, acknowledged, down_ms) "  # noqa: S608
            f"VALUES ('{lane}', {owner}, 0, 0, 0, 0)"
        )
