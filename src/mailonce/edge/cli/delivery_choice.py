"""Which deliveries are meant: by whom or which message they are about."""

from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.command import confirm
from mailonce.edge.cli.send_ids import about
from mailonce.errors import ConfigError, MissingError, RefusedError

# What one redelivery may name one by one.
IDS_MAX = 1_000
FINISHED = ("delivered", "failed")


async def choose(
    client: ApiSession,
    *,
    recipient: str | None,
    message: str | None,
    states: list[str] | None,
    yes: bool,
    **query: str | None,
) -> list[str]:
    """List the ids of deliveries about an address or a message, and ask whether they are meant.

    Raises: MissingError where there is none, RefusedError where none has ended, ConfigError where
    there are too many.
    """
    wanted = query | await about(client, recipient, message)
    rows = (await client.some("deliveries", limit=IDS_MAX + 1, **wanted))["data"]
    ids = [str(row["id"]) for row in rows if row["state"] in (states or FINISHED)]
    if rows and not ids and not states:
        raise RefusedError(
            f"none of them has ended yet, {len(rows):,} pending or in progress; "
            "see `mailonce undelivered`"
        )
    if not ids:
        raise MissingError("there are no such deliveries; see `mailonce delivery list --recipient`")
    if len(rows) > IDS_MAX:
        raise ConfigError(f"these are more than {IDS_MAX:,}; narrow them by --since or --route")
    confirm(f"Redeliver {len(ids):,} deliveries?", yes=yes or len(ids) == 1)
    return ids
