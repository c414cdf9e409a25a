"""`mailonce conflicts`, `refusals` and `stats`: what needs a look, and how much."""

from typing import Annotated, Any

import typer
from rich.text import Text

from mailonce.core.events.event import EventType
from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.conflict_search import COLUMNS as CONFLICT_COLUMNS
from mailonce.edge.cli.conflict_search import conflict_rows
from mailonce.edge.cli.list_options import (
    Cursor,
    Limit,
    Since,
    SinceDay,
    SourceName,
    Until,
    UntilDay,
    empty_list,
)
from mailonce.edge.cli.show import Column, Show

STAT_COLUMNS = (
    Column("day", "day"),
    Column("source", "source_name"),
    Column("type", "type"),
    Column("events", "count", right=True),
)
REFUSAL_COLUMNS = (
    Column("minute", "minute"),
    Column("source", "source_name"),
    Column("status", "status", right=True),
    Column("times", "count", right=True),
    Column("first from", "peer"),
    Column("reason", "reason", wraps=True),
)
PATH_COLUMNS = (*REFUSAL_COLUMNS[:2], Column("path", "path", wraps=True), *REFUSAL_COLUMNS[2:])


async def stats(
    client: ApiSession,
    show: Show,
    *,
    source: SourceName = None,
    type: Annotated[EventType | None, typer.Option(help="only this type")] = None,  # noqa: A002
    since: SinceDay = None,
    until: UntilDay = None,
    limit: Limit = 200,
    cursor: Cursor = None,
) -> None:
    """Count events by day of receipt (UTC), source and type.

    Copies are not counted, nor are events of other content under a known key: `mailonce conflicts`.
    """
    word = None if type is None else type.value
    wanted = {"source": source, "type": word, "since": since, "until": until}
    page = await client.some("stats", limit=limit, cursor=cursor, **wanted)
    empty = "nothing was counted yet; try [bold]mailonce demo[/bold]"
    show.page(page, STAT_COLUMNS, empty=empty_list("counts", wanted, empty))


async def conflicts(
    client: ApiSession,
    show: Show,
    *,
    source: SourceName = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> None:
    """List conflicts: known keys with different content, and the values that differ.

    Where the provider signs the body, the other content is an event of its own (`other event`),
    which takes effect and is delivered, but is not counted. Otherwise it changes nothing.
    """
    wanted = {"source": source, "since": since, "until": until}
    page = await client.some("conflicts", limit=limit, cursor=cursor, **wanted)
    if not show.json:
        page["data"] = conflict_rows(page["data"])
    empty = empty_list("conflicts", wanted, "no conflicts; every key has one content")
    show.page(page, CONFLICT_COLUMNS, empty=empty)


async def refusals(
    client: ApiSession,
    show: Show,
    *,
    source: SourceName = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> None:
    """List rejected webhooks, by reason and minute."""
    wanted = {"source": source, "since": since, "until": until}
    page = await client.some("refusals", limit=limit, cursor=cursor, **wanted)
    empty = empty_list("refusals", wanted, "no refusals; every arrival was verified")
    # A server of before does not tell it, and most have none.
    has_path = any(row.get("path") for row in page["data"])
    columns = PATH_COLUMNS if has_path else REFUSAL_COLUMNS
    show.page(page, columns, empty=empty)
    if not page["data"] or show.json:
        return
    show.say("")
    for reason, advice in dict.fromkeys((row["reason"], _advice(row)) for row in page["data"]):
        show.console.print(Text.assemble((f"{reason}: ", "bold"), advice))
    show.say("[dim]--json shows the headers and the first bytes of one in each row[/dim]")


def _advice(row: Any) -> str:
    """Say what to do, and whether the webhook comes again; that it is lost, the advice says."""
    # A server of before does not tell it.
    again = "; its provider sends it again by itself, for a while" if row.get("retried") else ""
    return f"{row['advice']}{again}"
