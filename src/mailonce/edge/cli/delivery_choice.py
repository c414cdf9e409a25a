"""Which deliveries are meant: by whom or which message they are about."""

from collections.abc import Sequence
from typing import Any

from mailonce.core.events.event import EventType
from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.command import confirm
from mailonce.edge.cli.send_ids import about
from mailonce.edge.cli.show import Show
from mailonce.errors import ConfigError, MissingError, RefusedError

# What one redelivery may name one by one.
IDS_MAX = 1_000
FINISHED = ("delivered", "failed")


async def choose(
    client: ApiSession,
    *,
    recipient: str | None,
    message: str | None,
    type_: EventType | None,
    states: list[str] | None,
    yes: bool,
    **query: str | None,
) -> list[str]:
    """List the ids of deliveries about an address or a message, and ask whether they are meant.

    Raises: MissingError where there is none, RefusedError where none has ended, ConfigError where
    there are too many.
    """
    mail = await about(client, recipient, message)
    rows = (await client.some("deliveries", limit=IDS_MAX + 1, **query, **mail))["data"]
    if len(rows) > IDS_MAX:
        # Those of the type among them would not be all.
        raise ConfigError(f"these are more than {IDS_MAX:,}; narrow them by --since or --route")
    if type_ is not None:
        times = {name: query[name] for name in ("since", "until")}
        page = await client.all("events", type=type_.value, **times, **mail)
        events = {one["id"] for one in page}
        rows = [row for row in rows if row["event"] in events]
    ids = [str(row["id"]) for row in rows if row["state"] in (states or FINISHED)]
    if rows and not ids and not states:
        raise RefusedError(
            f"none of them has ended yet, {len(rows):,} pending or in progress; "
            "see `mailonce undelivered`"
        )
    if not ids:
        raise MissingError("there are no such deliveries; see `mailonce delivery list --recipient`")
    # The server leaves out what was deleted, and says so.
    gone = {row["id"] for row in rows if row.get("mail_deleted")}
    count = len([one for one in ids if one not in gone])
    confirm(f"Redeliver {count:,} deliveries?", yes=yes or count <= 1)
    return ids


def say_left_out(show: Show, rerun: Any) -> None:
    """Say how many cannot be sent again; a server of before does not tell it."""
    if count := rerun.get("mail_deleted"):
        show.say(f"{count:,} left out: {_whose(count)} mail was deleted")


def say_deleted(show: Show, rows: Sequence[Any]) -> None:
    """Say what can be done about deliveries that failed, and that nothing is left of."""
    count = len([row for row in rows if _is_deleted(row)])
    if count:
        them = "it" if count == 1 else "them"
        show.say(
            f"[dim]{count:,} cannot be sent again: {_whose(count)} mail was deleted; close {them}: "
            "`mailonce dead dismiss`, by the id in `mailonce dead list`[/dim]"
        )


def state_words(row: Any) -> str:
    """Name the state of a delivery; a failed one may have nothing left to send."""
    return f"{row['state']}, mail deleted" if _is_deleted(row) else str(row["state"])


def _is_deleted(row: Any) -> bool:
    return row["state"] == "failed" and bool(row.get("mail_deleted"))


def _whose(count: int) -> str:
    return "its" if count == 1 else "their"
