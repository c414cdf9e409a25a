"""`mailonce dead`, `conflicts`, `refusals` and `stats`: what needs a look, and how much."""

from typing import Annotated

import typer

from mailonce.core.events.event import EventType
from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.command import Limit, api_command, group
from mailonce.edge.cli.show import Column, Show

dead = group("dead", "List, show and retry dead letters.")

DEAD_COLUMNS = (
    Column("failed", "failed_at"),
    Column("kind", "kind"),
    Column("source", "source_name"),
    Column("route", "route"),
    Column("reason", "reason", wraps=True),
    Column("attempts", "attempts", right=True),
    Column("id", "id", whole=True),
)
DEAD_FIELDS = (
    "id", "kind", "key", "source_name", "route", "reason", "last_error", "attempts", "failed_at",
    "resolved_at", "history", "raw", "raw_base64",
)  # fmt: skip
STAT_COLUMNS = (
    Column("day", "day"),
    Column("source", "source_name"),
    Column("type", "type"),
    Column("events", "count", right=True),
)
CONFLICT_COLUMNS = (
    Column("received", "received_at"),
    Column("source", "source_name"),
    Column("reason", "reason", wraps=True),
    Column("differs in", "differs"),
    Column("event", "event", whole=True),
)
REFUSAL_COLUMNS = (
    Column("minute", "minute"),
    Column("source", "source_name"),
    Column("reason", "reason", wraps=True),
    Column("times", "count", right=True),
)

DeadId = Annotated[str, typer.Argument(metavar="ID", help="dead_…")]
SourceName = Annotated[str | None, typer.Option("--source", help="only this source")]


@api_command(dead, "list")
async def list_dead(
    client: ApiSession, show: Show, *, source: SourceName = None, limit: Limit = 50
) -> None:
    """List arrivals and deliveries that were given up."""
    page = await client.get("dead-letters", source=source, limit=limit)
    show.page(page, DEAD_COLUMNS, empty="no dead letters; nothing waits for you")


@api_command(dead, "show")
async def show_dead(client: ApiSession, show: Show, dead_id: DeadId) -> None:
    """Show a dead letter with its bytes."""
    show.fields(await client.get("dead-letters", dead_id), DEAD_FIELDS)


@api_command(dead, "retry")
async def retry_dead(client: ApiSession, show: Show, dead_id: DeadId) -> None:
    """Read an arrival again with today's code, or send a delivery again."""
    letter = await client.post("dead-letters", dead_id, "retry")
    if show.answer(letter):
        return
    was = "is owed again" if letter["kind"] == "delivery" else "was read and took effect"
    show.say(f"{dead_id} {was}")


async def stats(
    client: ApiSession,
    show: Show,
    *,
    source: SourceName = None,
    type: Annotated[EventType | None, typer.Option(help="only this type")] = None,  # noqa: A002
    limit: Limit = 200,
) -> None:
    """Count events by day, source and type; copies are not counted."""
    word = None if type is None else type.value
    page = await client.get("stats", source=source, type=word, limit=limit)
    empty = "nothing was counted yet; try [bold]mailonce demo[/bold]"
    show.page(page, STAT_COLUMNS, empty=empty)


async def conflicts(
    client: ApiSession, show: Show, *, source: SourceName = None, limit: Limit = 50
) -> None:
    """List copies that had other content under a known key."""
    page = await client.get("conflicts", source=source, limit=limit)
    if not show.json:
        for item in page["data"]:
            item["differs"] = [difference["field"] for difference in item["differs"]]
    show.page(page, CONFLICT_COLUMNS, empty="no conflicts; every key has one content")


async def refusals(
    client: ApiSession, show: Show, *, source: SourceName = None, limit: Limit = 50
) -> None:
    """List what was refused, by reason and minute."""
    page = await client.get("refusals", source=source, limit=limit)
    show.page(page, REFUSAL_COLUMNS, empty="no refusals; every arrival was verified")
