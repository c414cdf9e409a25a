"""`mailonce delivery`, `undelivered`, `redeliver` and `reprocess`: the outgoing side."""

import asyncio
from typing import Annotated, Any

import typer

from mailonce.core.events.event import EventType
from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.command import (
    Limit,
    Yes,
    api_command,
    confirm,
    group,
    is_interactive,
)
from mailonce.edge.cli.show import Column, Show
from mailonce.errors import ConfigError, RefusedError

app = group("delivery", "List and show deliveries.")

LOOK_EVERY_S = 0.2
FOLLOW_EVERY_S = 0.5
# After so many looks at which nothing had moved, there is nothing to follow.
FOLLOW_LOOKS = 6
WAITING = ("pending", "in_progress")
COLUMNS = (
    Column("made", "made_at"),
    Column("route", "route_name"),
    Column("state", "state"),
    Column("attempts", "attempts", right=True),
    Column("status", "status", right=True),
    Column("error", "error", wraps=True),
    Column("id", "id", whole=True),
)
WAITING_COLUMNS = (*COLUMNS[:3], Column("next attempt", "next_attempt_at"), *COLUMNS[3:])
FIELDS = (
    "id", "route_name", "route", "event", "state", "lane", "made_at", "due_at", "next_attempt_at",
    "deadline_at", "done_at", "attempts", "redeliveries", "reprocessing", "status", "error", "body",
)  # fmt: skip
TRY_COLUMNS = (
    Column("attempt", "attempt", right=True),
    Column("at", "at"),
    Column("ms", "latency_ms", right=True),
    Column("status", "status", right=True),
    Column("error", "error"),
    Column("answer", "answer", wraps=True),
)
BACKLOG_COLUMNS = (
    Column("route", "route_name"),
    Column("on", "on"),
    Column("down", "endpoint_down"),
    Column("pending", "pending", right=True),
    Column("in progress", "in_progress", right=True),
    Column("failed", "failed", right=True),
    Column("oldest", "oldest_at"),
    Column("next attempt", "next_attempt_at"),
)

RouteName = Annotated[str | None, typer.Option("--route", help="only of this route")]
Since = Annotated[str | None, typer.Option(help="received at this time or later")]
Until = Annotated[str | None, typer.Option(help="received before this time")]
OfType = Annotated[EventType | None, typer.Option("--type", help="only this type")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="only count")]
All = Annotated[bool, typer.Option("--all", help="everything of the window, without a filter")]
Detach = Annotated[bool, typer.Option("--detach", help="return at once; the server goes on")]


@api_command(app, "list")
async def list_(
    client: ApiSession,
    show: Show,
    *,
    route: RouteName = None,
    state: Annotated[
        str | None, typer.Option(help="pending, in_progress, delivered or failed")
    ] = None,
    event: Annotated[str | None, typer.Option(help="evt_…")] = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
) -> None:
    """List deliveries, newest first."""
    page = await client.get(
        "deliveries", route=route, state=state, event=event, since=since, until=until, limit=limit
    )
    show.page(page, COLUMNS, empty="no deliveries; see [bold]mailonce route list[/bold]")


@api_command(app, "show")
async def show_(
    client: ApiSession, show: Show, id_: Annotated[str, typer.Argument(metavar="ID", help="dlv_…")]
) -> None:
    """Show a delivery: its body, and the outcome of each attempt."""
    delivery = await client.get("deliveries", id_)
    show.fields(delivery, FIELDS)
    if not show.json and delivery["history"]:
        show.table(TRY_COLUMNS, delivery["history"], sparse=True)


async def undelivered(
    client: ApiSession,
    show: Show,
    *,
    route: RouteName = None,
    state: Annotated[str | None, typer.Option(help="pending, in_progress or failed")] = None,
    limit: Limit = 20,
) -> None:
    """List pending and failed deliveries, with the sums by route."""
    page = await client.get("undelivered", route=route, state=state, limit=limit)
    if show.answer(page):
        return
    if not page["total"]:
        is_all = route is None and state is None
        show.say("everything is delivered" if is_all else "there are no such deliveries")
        return
    show.table(BACKLOG_COLUMNS, page["routes"], sparse=True)
    show.say("")
    show.page(page, WAITING_COLUMNS, empty="")


async def redeliver(
    client: ApiSession,
    show: Show,
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="dlv_…; default: by the options")
    ] = None,
    *,
    since: Since = None,
    until: Until = None,
    type: OfType = None,  # noqa: A002
    route: RouteName = None,
    state: Annotated[
        list[str] | None, typer.Option(help="their states; default: delivered and failed")
    ] = None,
    dry_run: DryRun = False,
    all_: All = False,
    yes: Yes = False,
    detach: Detach = False,
) -> None:
    """Send deliveries again: the same bytes under the same key, marked as a redelivery."""
    ids = [await client.whole_id(one) for one in ids or []]
    _check_choice("redeliver", ids, since, until, type, route, state, all_=all_ or dry_run)
    body = _rerun_body(ids, since, until, type, route, dry_run=dry_run) | {"state": state}
    await _begin(client, show, "redeliveries", body, "deliveries", detach=detach, yes=yes)


async def reprocess(
    client: ApiSession,
    show: Show,
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="evt_…; default: by the options")
    ] = None,
    *,
    since: Since = None,
    until: Until = None,
    type: OfType = None,  # noqa: A002
    route: RouteName = None,
    dry_run: DryRun = False,
    all_: All = False,
    yes: Yes = False,
    detach: Detach = False,
) -> None:
    """Send events as they are read and mapped today, under new keys."""
    ids = [await client.whole_id(one) for one in ids or []]
    _check_choice("reprocess", ids, since, until, type, route, all_=all_ or dry_run)
    body = _rerun_body(ids, since, until, type, route, dry_run=dry_run)
    await _begin(client, show, "reprocessings", body, "events", detach=detach, yes=yes)


def _rerun_body(
    ids: list[str] | None,
    since: str | None,
    until: str | None,
    type_: EventType | None,
    route: str | None,
    *,
    dry_run: bool,
) -> dict[str, Any]:
    return {
        "ids": ids or [],
        "since": since,
        "until": until,
        "type": None if type_ is None else type_.value,
        "route": route,
        "dry_run": dry_run,
    }


def _check_choice(command: str, *filters: object, all_: bool) -> None:
    """Refuse to send everything again because a filter was forgotten."""
    if not any(filters) and not all_:
        raise ConfigError(
            f"`mailonce {command}` without a filter would send everything of the window again; "
            "give ids, --route, --type, --since or --until, or --all if you mean it "
            "(--dry-run only counts)"
        )


async def _begin(
    client: ApiSession,
    show: Show,
    noun: str,
    body: dict[str, Any],
    of: str,
    *,
    detach: bool,
    yes: bool,
) -> None:
    verb = "redeliver" if noun == "redeliveries" else "reprocess"
    if body["dry_run"]:
        made = await client.post(noun, body=body)
        if not show.answer(made):
            show.say(f"would {verb} {made['total']:,} {of}; nothing was changed")
        return
    if not body["ids"] and not yes and is_interactive():
        counted = await client.post(noun, body=body | {"dry_run": True})
        confirm(f"{verb.capitalize()} {counted['total']:,} {of}?", yes=False)
    made = await client.post(noun, body=body)
    if not detach:
        made = await _watch(client, show, noun, made)
    if show.answer(made):
        return
    if made["state"] == "stopped":
        raise RefusedError(f"{made['id']} was stopped at {made['done']:,} of {made['total']:,}")
    show.say(f"{made['id']}: queued {made['done']:,} of {made['total']:,} {of} for delivery")
    if detach or not is_interactive():
        show.say("[dim]follow them with `mailonce undelivered`[/dim]")
    elif made["done"]:
        await _follow(client, show, body, made["done"])


async def _follow(client: ApiSession, show: Show, body: dict[str, Any], many: int) -> None:
    """Show how many still wait, until none does, nothing moves any more, or the user leaves.

    The server goes on in any case.
    """
    waiting = many
    looks_without_change = 0
    try:
        with show.progress() as progress:
            bar = progress.add_task("delivered", total=many)
            while waiting and looks_without_change < FOLLOW_LOOKS:
                await asyncio.sleep(FOLLOW_EVERY_S)
                before, waiting = waiting, min(many, await _waiting(client, body))
                looks_without_change = 0 if waiting < before else looks_without_change + 1
                progress.update(bar, completed=many - waiting)
    except asyncio.CancelledError:
        show.say(f"{waiting:,} stay queued; see `mailonce undelivered`")
        raise
    if waiting:
        show.say(f"{waiting:,} still wait, and stay queued; see `mailonce undelivered`")
    else:
        show.say("nothing waits any more; what failed is in `mailonce undelivered`")


async def _waiting(client: ApiSession, body: dict[str, Any]) -> int:
    """Count what waits of these deliveries, or of their route, or of all routes."""
    if body["ids"] and all(one.startswith("dlv_") for one in body["ids"]):
        states = [(await client.get("deliveries", one))["state"] for one in body["ids"]]
        return sum(state in WAITING for state in states)
    routes = (await client.get("undelivered", limit=1))["routes"]
    return sum(
        row[state]
        for row in routes
        for state in WAITING
        if body["route"] in (None, row["route"], row["route_name"])
    )


async def _watch(client: ApiSession, show: Show, noun: str, made: Any) -> Any:
    """Follow a rerun to its end; where a server runs it, it continues without us."""
    with show.progress() as progress:
        bar = progress.add_task(made["kind"], total=made["total"])
        while made["state"] == "running":
            await asyncio.sleep(LOOK_EVERY_S)
            made = await client.get(noun, made["id"])
            progress.update(bar, completed=made["done"])
    return made
