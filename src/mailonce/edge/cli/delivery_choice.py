"""Which deliveries are meant: by whom or which message they are about."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.text import Text

from mailonce.core.deliveries.removed_route import put_back_words
from mailonce.core.events.event import EventType
from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.command import confirm
from mailonce.edge.cli.delivery_outcomes import ENDPOINT_DOWN, pending_by_route
from mailonce.edge.cli.removed_routes import removed_words
from mailonce.edge.cli.send_ids import about
from mailonce.edge.cli.show import Show
from mailonce.errors import ConfigError, MissingError, RefusedError

# What one redelivery may name one by one.
IDS_MAX = 1_000
# Of so many that are pending, the oldest, it is seen whether their endpoint is down.
ROWS_MAX = 100
FINISHED = ("delivered", "failed")


def check_kinds(ids: Sequence[str]) -> None:
    """Refuse ids of something else, with the command that is meant.

    Raises: RefusedError.
    """
    for one in ids:
        if one.startswith("dead_"):
            raise RefusedError(
                f"{one} is a dead letter; send it again: `mailonce dead retry {one}`"
            )
        if one.startswith("evt_"):
            raise RefusedError(
                f"{one} is an event; its deliveries: `mailonce delivery list --event {one}`"
            )


async def choose(
    client: ApiSession,
    show: Show,
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
    pending = 0 if states else len([row for row in rows if row["state"] == "pending"])
    sends = _how_to_send_pending([row for row in rows if row["state"] == "pending"])
    if rows and not ids and not states:
        raise RefusedError(
            f"none of them has ended yet, {len(rows):,} pending or in progress; "
            + (sends if pending else "see `mailonce undelivered`")
        )
    if not ids:
        raise MissingError("there are no such deliveries; see `mailonce delivery list --recipient`")
    if pending and not show.json:
        show.say(f"{pending:,} left out, pending already; {sends}")
    # The server leaves out what cannot be sent again, and says so.
    counted = await client.post("redeliveries", body={"ids": ids, "dry_run": True})
    count = counted["total"]
    confirm(f"Redeliver {count:,} deliveries?", yes=yes or count <= 1)
    return ids


async def pending_words(client: ApiSession, body: Any) -> list[str]:
    """Say how many a redelivery by a filter leaves out because they are pending already."""
    if "state" not in body or body["ids"] or "pending" in (body["state"] or ()):
        return []
    times = {name: body[name] for name in ("since", "until")}
    if body["type"] is None:
        return await pending_by_route(client, body["route"], **times)
    counted = await client.post("redeliveries", body=body | {"state": ["pending"], "dry_run": True})
    count = counted["total"]
    if not count:
        return []
    page = await client.get("undelivered", route=body["route"], **times, limit=ROWS_MAX)
    pending = [row for row in page["data"] if row["state"] == "pending"]
    are = "is" if count == 1 else "are"
    return [f"{count:,} {are} pending already; {_how_to_send_pending(pending, count)}"]


def _how_to_send_pending(rows: Sequence[Any], count: int | None = None) -> str:
    """Say what `--state pending` does for deliveries."""
    them = "it" if (len(rows) if count is None else count) == 1 else "them"
    # A server of before does not tell it.
    if rows and all(row.get("endpoint_down") for row in rows):
        return ENDPOINT_DOWN
    if rows and all(row["next_attempt_at"] is None for row in rows):
        return "the route is off, or read by its consumer; see `mailonce undelivered`"
    return f"--state pending sends {them} now"


def say_left_out(show: Show, rerun: Any) -> None:
    """Say how many cannot be sent again; a server of before does not tell it."""
    if count := rerun.get("mail_deleted"):
        show.say(f"{count:,} left out: {_whose(count)} mail was deleted")
    if count := rerun.get("route_removed"):
        show.say(f"{count:,} left out: {_whose(count)} route was removed")


def say_deleted(show: Show, rows: Sequence[Any]) -> None:
    """Say what can be done about deliveries that failed, and that nothing is left of."""
    count = len([row for row in rows if _is_deleted(row)])
    if count:
        them = "it" if count == 1 else "them"
        show.say(
            f"[dim]{count:,} cannot be sent again: {_whose(count)} mail was deleted; close {them}: "
            "`mailonce dead dismiss`, by the id in `mailonce dead list`[/dim]"
        )


def say_removed(show: Show, backlogs: Sequence[Any]) -> None:
    """Say what can be done about deliveries that failed, and whose route was removed."""
    for one in backlogs:
        if one["failed"] and one.get("route_removed"):
            name = one["removed_name"]
            can_return = name is not None and not one["name_taken"]
            way = f"{put_back_words(name)}; or " if can_return else ""
            words = (
                f"{one['failed']:,} of {one['route_name']} cannot be sent as things are: "
                f"{way}close {'it' if one['failed'] == 1 else 'them'}: "
                f"`mailonce dead dismiss --route {one['route']} --reason …`"
            )
            show.console.print(Text(words, "dim"), soft_wrap=True)


def say_how_to_send_again(show: Show, delivery: Any) -> None:
    """Name the command for a delivery that has ended, or say why there is none."""
    if delivery["state"] not in FINISHED:
        return
    if delivery.get("mail_deleted"):
        show.say("[dim]it cannot be sent again: its mail was deleted[/dim]")
    elif delivery.get("route_removed"):
        id_ = None if delivery["state"] == "failed" else delivery["id"]
        show.console.print(Text(removed_words(delivery, delivery=id_), "dim"), soft_wrap=True)
    else:
        show.say(f"[dim]send it again: `mailonce redeliver {delivery['id']}`[/dim]")


def sendable_routes(page: Any) -> list[str]:
    """Name the routes of undelivered ones with a failure that can be sent again."""
    deleted = Counter(row["route"] for row in page["data"] if _is_deleted(row))
    return [
        one["route_name"]
        for one in page["routes"]
        if one["failed"] > deleted[one["route"]] and not one.get("route_removed")
    ]


def state_words(row: Any) -> str:
    """Name the state of a delivery; a failed one may have nothing left to send.

    What a table shows beside one that waits to be sent again is the outcome before that.
    """
    if row.get("redelivery_pending"):
        return f"redelivery {row['state']}"
    return f"{row['state']}, mail deleted" if _is_deleted(row) else str(row["state"])


def table_words(row: Any) -> dict[str, str]:
    """Give what a table has of a delivery in words: one that looks like a copy says why it is."""
    marks = ["reprocessed"] if row.get("reprocessing") else []
    if row["state"] == "delivered" and row.get("redeliveries"):
        marks.append("redelivered")
    return {
        "state": ", ".join([state_words(row), *marks]),
        # A server of before has but the one time.
        "received_at": row.get("received_at", row["made_at"]),
    }


def _is_deleted(row: Any) -> bool:
    return row["state"] == "failed" and bool(row.get("mail_deleted"))


def _whose(count: int) -> str:
    return "its" if count == 1 else "their"
