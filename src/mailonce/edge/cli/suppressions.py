"""`mailonce suppression`: which addresses must not be sent mail."""

from shlex import quote
from typing import Annotated, Any

import typer
from rich.markup import escape

from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.command import Yes, api_command, confirm, group
from mailonce.edge.cli.list_options import Cursor, Limit, Since, Until, empty_list
from mailonce.edge.cli.show import Column, Show, moment

app = group("suppression", "List, show, add and lift suppressions.")

COLUMNS = (
    Column("address", "address", whole=True),
    Column("suppressed", "suppressed"),
    Column("for", "which"),
    Column("since", "since"),
    Column("causes", "why"),
    Column("reason", "reason", wraps=True),
)
CAUSES = (
    Column("cause", "cause"),
    Column("stream", "stream"),
    Column("since", "suppressed_at"),
    Column("reason", "reason", wraps=True),
    Column("event", "event", whole=True),
)
LIFTED_COLUMNS = (
    COLUMNS[0],
    Column("lifted", "lifted_at"),
    Column("by", "who"),
    Column("reason", "reason", wraps=True),
    Column("was suppressed for", "was", wraps=True),
)
LIFTS = (
    Column("lifted", "lifted_at"),
    Column("by", "who"),
    Column("reason", "reason", wraps=True),
    Column("was suppressed for", "was", wraps=True),
)

EMPTY = "no address is suppressed; hard bounces and complaints suppress by themselves"

Address = Annotated[str, typer.Argument(metavar="ADDRESS")]
Reason = Annotated[str | None, typer.Option(help="why, for those who read it later")]


@api_command(app, "list")
async def list_(
    client: ApiSession,
    show: Show,
    *,
    lifted: Annotated[
        bool, typer.Option("--lifted", help="those that were lifted instead")
    ] = False,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> None:
    """List the addresses that are suppressed."""
    wanted = {"suppressed": "false" if lifted else "true", "since": since, "until": until}
    page = await client.some("suppressions", limit=limit, cursor=cursor, **wanted)
    if not show.json:
        row_of = _lifted_row if lifted else _row
        page = {**page, "data": [row_of(item) for item in page["data"]]}
    given = {"lifted": lifted, "since": since, "until": until}
    columns = LIFTED_COLUMNS if lifted else COLUMNS
    show.page(page, columns, empty=empty_list("suppressed addresses", given, EMPTY))
    if page["data"] and not show.json:
        show.say("[dim]which event, and who reported it: `mailonce suppression show ADDRESS`[/dim]")


@api_command(app, "show")
async def show_(client: ApiSession, show: Show, address: Address) -> None:
    """Show whether an address is suppressed, and why."""
    await _print(client, show, await client.get("suppressions", address))


@api_command(app, "add", creates=True)
async def add(client: ApiSession, show: Show, address: Address, *, reason: Reason = None) -> None:
    """Suppress an address by hand."""
    body = {} if reason is None else {"reason": reason}
    await _print(client, show, await client.put("suppressions", address, body=body))


@api_command(app, "lift")
async def lift(
    client: ApiSession, show: Show, address: Address, *, reason: Reason = None, yes: Yes = False
) -> None:
    """Lift every suppression of an address; that it was lifted stays visible."""
    stands = await client.get("suppressions", address)
    if stands["suppressed"]:
        causes = ", ".join(dict.fromkeys(one["cause"] for one in stands["causes"]))
        which = f"{stands['address']}, suppressed {suppressed_for(stands)} ({causes})"
        confirm(f"Lift {which}? It may be sent such mail again.", yes=yes)
    lifted = await client.delete("suppressions", address, reason=reason)
    if not stands["suppressed"] and stands["lifts"] and not show.json:
        last = stands["lifts"][0]
        who = escape(f"{lifter_of(last)}, at {moment(last['lifted_at'])}")
        show.say(
            f"nothing was suppressed: it was lifted already by {who}; the new lift also covers "
            "what was reported since then and is still to arrive"
        )
    await _print(client, show, lifted or await client.get("suppressions", address))


async def _print(client: ApiSession, show: Show, suppression: Any) -> None:
    if show.answer(suppression):
        return
    await explain_causes(client, suppression)
    show.say(f"[bold]{escape(suppression['address'])}[/bold] {suppression_words(suppression)}")
    if suppression["causes"]:
        show.table(CAUSES, suppression["causes"], is_whole=True)
        show.say(f"[dim]{lift_hint(suppression['address'])}[/dim]")
    if suppression["lifts"]:
        rows = [_lift_row(one) for one in suppression["lifts"]]
        show.table(LIFTS, rows, is_whole=True)


async def explain_causes(client: ApiSession, suppression: Any) -> None:
    """Write as the reason of each cause what its event said: what happened, and who reported it."""
    lifted = [cause for lift in suppression["lifts"] for cause in lift["causes"]]
    for cause in [*suppression["causes"], *lifted]:
        event = None if cause["event"] is None else await client.find("events", cause["event"])
        if event is not None:
            what = " ".join(word for word in (event["type"], event["bounce"]) if word)
            texts = [text for text in (cause["reason"] or event["reason"],) if text]
            cause["reason"] = ": ".join([f"{what}, reported by {event['provider']}", *texts])
        cause["reason"] = cause["reason"] or "no reason given"


def suppressed_for(suppression: Any) -> str:
    """Say for which mail an address is suppressed: all of it, or that of some streams."""
    streams = sorted({cause["stream"] or "" for cause in suppression["causes"]})
    if not streams or "" in streams:
        return "for all mail"
    return f"for the stream{'s' if len(streams) > 1 else ''} {', '.join(streams)}"


def suppression_words(suppression: Any) -> str:
    """Say whether an address is suppressed, as markup."""
    if suppression is None or not suppression["suppressed"]:
        return "is not suppressed"
    return f"[red]is suppressed[/red] {escape(suppressed_for(suppression))}"


def lift_hint(address: str) -> str:
    """Say how to send to an address again, as it can be pasted into a shell."""
    return f"send to it again: `mailonce suppression lift {escape(quote(address))} --reason …`"


def lifter_of(lift: Any) -> str:
    """Name who lifted: the key, as people know it, or an event."""
    return str(lift["by_key_name"] or lift["by_key"] or lift["by"])


def _lift_row(lift: Any) -> dict[str, Any]:
    return {**lift, "who": lifter_of(lift), "was": lifted_causes(lift)}


def lifted_causes(lift: Any) -> list[str]:
    """Say what each suppression that was lifted was for, and why it had been there."""
    return [
        f"{one['cause']} {suppressed_for({'causes': [one]})}: {one['reason']}"
        for one in lift["causes"]
    ]


def _lifted_row(one: Any) -> dict[str, Any]:
    """Give an address with its last lift, which may have been there before any suppression."""
    lift = next(iter(one["lifts"]), None)
    if lift is None:
        return {"address": one["address"]}
    was = list(dict.fromkeys(cause["cause"] for cause in lift["causes"]))
    return {**lift, "address": one["address"], "who": lifter_of(lift), "was": was or None}


def _row(one: Any) -> dict[str, Any]:
    causes = one["causes"]
    times = [cause["suppressed_at"] for cause in causes if cause["suppressed_at"]]
    return {
        "address": one["address"],
        "suppressed": one["suppressed"],
        "which": suppressed_for(one).removeprefix("for "),
        "since": min(times, default=None),
        "why": [cause["cause"] for cause in causes],
        "reason": next((cause["reason"] for cause in causes if cause["reason"]), None),
    }
