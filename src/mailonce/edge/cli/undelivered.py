"""`mailonce undelivered`: what is pending or failed, by route, and what can be done about it."""

from shlex import quote
from typing import Annotated

import typer
from rich.markup import escape

from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.deliveries import COLUMNS
from mailonce.edge.cli.delivery_choice import say_deleted, say_removed, sendable_routes, table_words
from mailonce.edge.cli.delivery_outcomes import ONE_AT_A_TIME, next_attempt_time
from mailonce.edge.cli.list_options import (
    Cursor,
    Limit,
    MessageId,
    Recipient,
    RouteName,
    SinceReceipt,
    UntilReceipt,
    empty_list,
)
from mailonce.edge.cli.removed_routes import name_removed_routes
from mailonce.edge.cli.send_ids import about
from mailonce.edge.cli.show import Column, Show

# Of so many routes it is said what can be done.
ADVICE_MAX = 5
# Of so many dead letters, the newest, it is seen whether they were dismissed.
LETTERS_MAX = 100
WAITING_COLUMNS = (*COLUMNS[:3], Column("next attempt", "next_attempt"), *COLUMNS[3:])
BACKLOG_COLUMNS = (
    Column("route", "route_name"),
    Column("on", "on"),
    Column("off because", "off_reason", wraps=True),
    Column("down", "endpoint_down"),
    Column("pending", "pending", right=True),
    Column("in progress", "in_progress", right=True),
    Column("failed", "failed", right=True),
    Column("oldest", "oldest_at"),
    Column("next attempt", "next_attempt_at"),
)


async def undelivered(
    client: ApiSession,
    show: Show,
    *,
    route: RouteName = None,
    state: Annotated[str | None, typer.Option(help="pending, in_progress or failed")] = None,
    recipient: Recipient = None,
    message: MessageId = None,
    since: SinceReceipt = None,
    until: UntilReceipt = None,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> None:
    """List pending and failed deliveries, with the sums by route."""
    wanted = {"route": route, "state": state, "since": since, "until": until}
    wanted |= await about(client, recipient, message)
    page = await client.some("undelivered", limit=limit, cursor=cursor, **wanted)
    if show.answer(page):
        return
    if not page["total"]:
        dismissed = await _dismissed(client, wanted)
        otherwise = "nothing waits" if dismissed else "everything is delivered"
        show.say(empty_list("undelivered ones", wanted, otherwise) + dismissed)
        return
    await name_removed_routes(client, [*page["data"], *page["routes"]])
    rows = [
        row | table_words(row) | {"next_attempt": next_attempt_time(row)} for row in page["data"]
    ]
    show.page({**page, "data": rows}, WAITING_COLUMNS, empty="")
    # At the end: the rows may be many, and the sums are what is asked for first.
    show.say("")
    show.table(BACKLOG_COLUMNS, page["routes"], sparse=True)
    given = {"--recipient": recipient, "--message-id": message, "--since": since, "--until": until}
    narrowed = "".join(f" {name} {quote(value)}" for name, value in given.items() if value)
    for name in sendable_routes(page)[:ADVICE_MAX]:
        # By the same times: those of a dead letter are when it failed.
        again = f"redeliver --route {name} --state failed{narrowed}"
        command = escape(again if narrowed else f"dead retry --route {name}")
        show.say(f"[dim]send again what failed: `mailonce {command}`[/dim]")
    if any(row.get("endpoint_down") for row in page["data"]):
        show.say(f"[dim]{ONE_AT_A_TIME}[/dim]")
    say_deleted(show, page["data"])
    say_removed(show, page["routes"])


async def _dismissed(client: ApiSession, wanted: dict[str, str | None]) -> str:
    """Say how many failed for good: a person dismissed them, so that nothing waits any more."""
    # Deliveries are found by when they were made, dead letters by when they failed.
    if any(wanted[name] for name in ("state", "since", "until")):
        return ""
    page = await client.get(
        "dead-letters", **wanted, kind="delivery", resolved="true", limit=LETTERS_MAX
    )
    count = len(
        {
            one["delivery"]
            for one in page["data"]
            # A server of before does not tell what was delivered all the same.
            if one["resolution"] == "dismissed" and not one.get("delivered_at")
        }
    )
    if not count:
        return ""
    many = f"{count} or more" if page["next"] else f"{count}"
    verb = "was" if many == "1" else "were"
    return f"; {many} failed and {verb} dismissed: `mailonce dead list --resolved`"
