"""`mailonce delivery`, `undelivered`, `redeliver` and `reprocess`: the outgoing side."""

import asyncio
from typing import Annotated, Any

import typer

from mailonce.core.deliveries.rerun import RerunKind
from mailonce.core.events.event import EventType
from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.command import Yes, api_command, confirm, group
from mailonce.edge.cli.delivery_choice import (
    check_kinds,
    choose,
    pending_words,
    say_how_to_send_again,
    say_left_out,
    state_words,
    table_words,
)
from mailonce.edge.cli.delivery_outcomes import (
    ONE_AT_A_TIME,
    DeliveryWatch,
    Detach,
    RerunWatch,
    Watch,
    follow,
    next_attempt_time,
)
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
from mailonce.errors import ConfigError, RefusedError

app = group("delivery", "List and show deliveries.")

LOOK_EVERY_S = 0.2
COUNT_PAGES_MAX = 20
COUNT_PAGE_ROWS = 1000
EMPTY = "no deliveries; see [bold]mailonce route list[/bold]"
COLUMNS = (
    Column("received", "received_at"),
    Column("route", "route_name"),
    Column("state", "state"),
    Column("recipient", "recipient", whole=True),
    Column("attempts", "attempts", right=True),
    Column("status", "status", right=True),
    Column("error", "error", wraps=True),
    Column("id", "id", whole=True),
)
FIELDS = (
    "id", "key", "route_name", "route", "event", "recipient", "state", "lane", "received_at",
    "made_at", "due_at", "next_attempt", "deadline_at", "done_at", "attempts", "redeliveries",
    "redelivery", "reprocessing", "status", "error",
)  # fmt: skip
TRY_COLUMNS = (
    Column("attempt", "attempt", right=True),
    Column("at", "at"),
    Column("ms", "latency_ms", right=True),
    Column("status", "status", right=True),
    Column("error", "error", wraps=True),
    Column("answer", "answer", wraps=True),
)
OfType = Annotated[EventType | None, typer.Option("--type", help="only this type")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="only count")]
All = Annotated[bool, typer.Option("--all", help="everything of the window, without a filter")]


@api_command(app, "list")
async def list_(
    client: ApiSession,
    show: Show,
    *,
    route: RouteName = None,
    state: Annotated[
        str | None, typer.Option(help="pending, in_progress, delivered or failed")
    ] = None,
    event: Annotated[str | None, typer.Option(help="evt_…, or its beginning")] = None,
    recipient: Recipient = None,
    message: MessageId = None,
    since: SinceReceipt = None,
    until: UntilReceipt = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> None:
    """List deliveries by the receipt of their events, newest first."""
    event = None if event is None else await client.whole_id(event)
    wanted = {"route": route, "state": state, "event": event, "since": since, "until": until}
    wanted |= await about(client, recipient, message)
    page = await client.some("deliveries", limit=limit, cursor=cursor, **wanted)
    if not show.json:
        await name_removed_routes(client, page["data"])
        page = {**page, "data": [one | table_words(one) for one in page["data"]]}
    show.page(page, COLUMNS, empty=empty_list("deliveries", wanted, EMPTY))


@api_command(app, "show")
async def show_(
    client: ApiSession,
    show: Show,
    id_: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="dlv_…, or the X-Idempotency-Key that the endpoint received"
        ),
    ],
) -> None:
    """Show a delivery: the outcome of each attempt, and its body."""
    delivery = await client.get("deliveries", id_)
    if show.answer(delivery):
        return
    await name_removed_routes(client, [delivery])
    words = {"state": state_words(delivery), "next_attempt": next_attempt_time(delivery)}
    show.fields(delivery | words, FIELDS)
    if delivery["history"]:
        show.table(TRY_COLUMNS, delivery["history"], sparse=True, is_whole=True)
    show.fields(delivery, ("body",))
    if delivery.get("endpoint_down"):
        show.say(f"[dim]{ONE_AT_A_TIME}[/dim]")
    say_how_to_send_again(show, delivery)


async def redeliver(
    client: ApiSession,
    show: Show,
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="dlv_…; default: by the options")
    ] = None,
    *,
    since: SinceReceipt = None,
    until: UntilReceipt = None,
    type: OfType = None,  # noqa: A002
    route: RouteName = None,
    recipient: Recipient = None,
    message: MessageId = None,
    state: Annotated[
        list[str] | None, typer.Option(help="their states; default: delivered and failed")
    ] = None,
    dry_run: DryRun = False,
    all_: All = False,
    yes: Yes = False,
    detach: Detach = False,
) -> None:
    """Send deliveries again: the same bytes under the same key, marked as a redelivery."""
    check_kinds(ids or [])
    ids = [await client.whole_id(one) for one in ids or []]
    if recipient is not None or message is not None:
        if ids:
            raise ConfigError("--recipient and --message-id do not go with ids")
        ids = await choose(
            client, show, recipient=recipient, message=message, type_=type, states=state,
            yes=yes or dry_run, route=route, since=since, until=until,
        )  # fmt: skip
    _check_choice(
        "redeliver", ids, since, until, type, route, state, all_=all_ or dry_run,
        options="--recipient, --message-id, --route, --type",
    )  # fmt: skip
    body = _rerun_body(ids, since, until, type, route, dry_run=dry_run) | {"state": state}
    await _begin(client, show, "redeliveries", body, "deliveries", detach=detach, yes=yes)


async def reprocess(
    client: ApiSession,
    show: Show,
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="evt_…; default: by the options")
    ] = None,
    *,
    since: SinceReceipt = None,
    until: UntilReceipt = None,
    type: OfType = None,  # noqa: A002
    route: RouteName = None,
    missing: Annotated[
        bool, typer.Option("--missing", help="only events that the route of --route never had")
    ] = False,
    dry_run: DryRun = False,
    all_: All = False,
    yes: Yes = False,
    detach: Detach = False,
) -> None:
    """Send events as they are read and mapped today, under new keys."""
    if missing and route is None:
        raise ConfigError("--missing needs --route NAME: the route that never had the events")
    ids = [await client.whole_id(one) for one in ids or []]
    # The route is whom they are sent to: it leaves no event out.
    _check_choice(
        "reprocess", ids, since, until, type, missing, all_=all_ or dry_run,
        options="--type, --missing",
    )  # fmt: skip
    body = _rerun_body(ids, since, until, type, route, dry_run=dry_run)
    # A server of a version before refuses what it does not know.
    body |= {"missing": True} if missing else {}
    await _begin(client, show, "reprocessings", body, "events", detach=detach, yes=yes)


def _many(count: int, nouns: str) -> str:
    noun = {"deliveries": "delivery", "events": "event"}[nouns]
    return f"{count:,} {noun if count == 1 else nouns}"


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


def _check_choice(command: str, *filters: object, all_: bool, options: str) -> None:
    """Refuse to send everything again because a filter was forgotten."""
    if not any(filters) and not all_:
        raise ConfigError(
            f"`mailonce {command}` without a filter would {command} everything of the window; "
            f"give ids, {options}, --since or --until, or --all if you mean it "
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
    if body["dry_run"] or not body["ids"]:
        counted = await client.post(noun, body=body | {"dry_run": True})
        if body["dry_run"] or not counted["total"]:
            await _print_count(client, show, verb, of, body, counted)
            return
        confirm(f"{verb.capitalize()} {_many(counted['total'], of)}?", yes=yes)
    follows = not detach and not show.json
    # Before: afterwards, what is sent again is pending as well.
    pending = [] if show.json else await pending_words(client, body)
    made = await client.post(noun, body=body)
    if not detach:
        made |= await _watch(client, show, noun, made)
    client.warn_without_server()
    if show.answer(made):
        return
    if made["state"] == "stopped":
        raise RefusedError(f"{made['id']} was stopped at {made['done']:,} of {made['total']:,}")
    if made["state"] == "running":
        show.say(f"{made['id']}: {_many(made['total'], of)} to be queued for delivery")
    else:
        show.say(f"{made['id']}: queued {made['done']:,} of {made['total']:,} {of} for delivery")
    say_left_out(show, made)
    show.plain(pending)
    if not follows:
        show.say("[dim]follow them with `mailonce undelivered`[/dim]")
    elif made["done"] and (ids := await _ids_of(client, made)):
        watch: Watch = DeliveryWatch(client, ids, since=made["created_at"])
        await follow(show, watch, moves=client.has_server)
    elif made["done"]:
        total = await _count_of(client, made)
        if total == 0:
            show.say("no route takes them as they are read today: nothing is delivered")
            return
        if total is not None and made["kind"] == RerunKind.REPROCESSING:
            verb = "was" if total == 1 else "were"
            show.say(f"{_many(total, 'deliveries')} {verb} made of them")
        watch = RerunWatch(client, made, total or made["done"], is_counted=total is not None)
        await follow(show, watch, moves=client.has_server)


async def _print_count(
    client: ApiSession, show: Show, verb: str, of: str, body: dict[str, Any], counted: Any
) -> None:
    """Say how many were found, and how many are left out because they are pending already."""
    if show.answer(counted):
        return
    if body["dry_run"]:
        show.say(f"would {verb} {_many(counted['total'], of)}; nothing was changed")
        say_left_out(show, counted)
    else:
        what = f"{body['route']} had each of them" if body.get("missing") else f"no such {of}"
        show.say(f"nothing to {verb}: {what}")
    show.plain(await pending_words(client, body))


async def _ids_of(client: ApiSession, made: Any) -> list[str]:
    """List the deliveries of a rerun that named what it is for; of any other one, none."""
    ids: list[str] = made["filter"]["ids"]
    if made["kind"] == RerunKind.REDELIVERY:
        return ids
    pages = [await client.get("deliveries", event=one, limit=1000) for one in ids]
    return [
        str(one["id"]) for page in pages for one in page["data"]
        if one["reprocessing"] == made["id"]
    ]  # fmt: skip


async def _count_of(client: ApiSession, made: Any) -> int | None:
    """Count the deliveries of a rerun by a filter; None where they are too many to be listed.

    A redelivery is of deliveries; events that are read again may be taken by any number of routes.
    """
    if made["kind"] == RerunKind.REDELIVERY:
        return int(made["done"])
    wanted = {name: made["filter"][name] for name in ("route", "since", "until")}
    count = 0
    cursor: str | None = None
    for _ in range(COUNT_PAGES_MAX):
        page = await client.get("deliveries", **wanted, limit=COUNT_PAGE_ROWS, cursor=cursor)
        count += len([one for one in page["data"] if one["reprocessing"] == made["id"]])
        cursor = page["next"]
        if cursor is None:
            return count
    return None


async def _watch(client: ApiSession, show: Show, noun: str, made: Any) -> Any:
    """Follow a rerun to its end; where a server runs it, it continues without us."""
    with show.progress() as progress:
        bar = progress.add_task(made["kind"], total=made["total"])
        while made["state"] == "running":
            await asyncio.sleep(LOOK_EVERY_S)
            made = await client.get(noun, made["id"])
            progress.update(bar, completed=made["done"])
    return made
