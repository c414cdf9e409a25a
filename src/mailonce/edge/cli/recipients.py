"""`mailonce recipient`: what happened to an address."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.markup import escape

from mailonce.core.reading.values import address_of, bare_address
from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.conflict_search import find_conflicts, show_conflicts
from mailonce.edge.cli.events import (
    TIMELINE,
    complete_deliveries,
    headline,
    say_mail_deleted,
    say_unmatched,
    timeline_rows,
)
from mailonce.edge.cli.inbox_search import find_mail_from, show_mail_from
from mailonce.edge.cli.list_options import Limit
from mailonce.edge.cli.refused_mail import refusals_of_address, show_refusals_of_address
from mailonce.edge.cli.send_history import histories, send_state
from mailonce.edge.cli.show import Column, Show, moment
from mailonce.edge.cli.suppressions import (
    explain_causes,
    lift_hint,
    lifted_causes,
    lifter_of,
    suppression_words,
)
from mailonce.errors import AccessError

EVENTS_MAX = 1_000
# Of other workspaces, so many are named.
NAMES_MAX = 5

SENDS = (
    Column("created", "created_at"),
    Column("state", "state"),
    Column("key", "key", whole=True),
    Column("id", "id", whole=True),
    Column("reason", "reason", wraps=True),
)


ALONE = (
    Column("received", "received_at"),
    Column("type", "type"),
    Column("class", "bounce"),
    Column("source", "source_name"),
    Column("reason", "reason", wraps=True),
    Column("id", "id", whole=True),
)


async def recipient(
    client: ApiSession,
    show: Show,
    address: Annotated[str, typer.Argument(metavar="ADDRESS")],
    *,
    limit: Limit = 10,
) -> None:
    """Show what is known of an address: suppression, sends, events, deliveries, mail from it.

    Conflicts that name it, too. Webhooks that could not be read, or were refused, mail that no
    inbox took and other workspaces are not searched.
    """
    written, address = bare_address(address), address_of(address)
    suppression = await client.find("suppressions", address)
    events = (await client.some("events", recipient=address, limit=EVENTS_MAX))["data"]
    known = list(dict.fromkeys(one["message_id"] for one in events if one["message_id"]))
    ids = known[:limit]
    # Between two questions a message may be pruned: the others are shown all the same.
    messages = [
        message
        for one in ids
        if (message := await _find_message(client, one, address, _source_of(events, one)))
    ]
    sends = (await client.get("sends", recipient=address, limit=limit))["data"]
    mails = await find_mail_from(client, written)
    conflicts = await find_conflicts(client, address, {one["id"] for one in events})
    refused = await refusals_of_address(client, address)
    others = await _other_workspaces(client)
    alone = [one for one in events if not one["message_id"]]
    answer = {
        "address": address, "suppression": suppression, "sends": sends, "messages": messages,
        "more_messages": len(known) > limit or len(events) == EVENTS_MAX, "mail_in_inboxes": mails,
        "conflicts": conflicts, "refused": refused, "events_without_message": alone[:limit],
        "other_workspaces": others,
    }  # fmt: skip
    if show.answer(answer):
        return
    if suppression is not None:
        await explain_causes(client, suppression)
    _say_suppression(show, address, suppression)
    if sends:
        show.say("\nsends, newest first")
        show.table(SENDS, [one | {"state": send_state(one)} for one in sends], sparse=True)
    if not events:
        show.say("\nno events name this address" + ("" if sends else ", and no sends"))
    if alone:
        show.say("\nevents without a message, newest first")
        show.table(ALONE, alone[:limit], sparse=True)
    if len(alone) > limit:
        show.say(f"there are {len(alone) - limit} more of these; raise --limit")
    for message in messages:
        show.say(f"\nmessage [bold]{escape(message['message_id'])}[/bold]")
        for facts in message["recipients"]:
            show.console.print(headline(facts))
            await complete_deliveries(client, facts["timeline"])
            again = await histories(client, facts["timeline"])
            show.table(TIMELINE, [*again, *timeline_rows(facts["timeline"])], sparse=True)
        say_mail_deleted(show, message)
    await say_unmatched(client, show, messages)
    if answer["more_messages"]:
        show.say(f"\nthere are more messages than these {len(messages)}; raise --limit")
    show_refusals_of_address(show, refused)
    show_mail_from(show, written, mails)
    show_conflicts(show, conflicts)
    show.say(f"[dim]{escape(not_searched(others))}[/dim]")


def not_searched(other_workspaces: Sequence[str]) -> str:
    """Say what may know the address as well, and how it is found."""
    names = ", ".join(other_workspaces[:NAMES_MAX])
    more = ", …" if len(other_workspaces) > NAMES_MAX else ""
    others = f"other workspaces: {names}{more}; add `--workspace NAME`; " if names else ""
    return (
        "not searched: webhooks that could not be read, or were refused, and mail that no inbox "
        f"took; {others}docs/operate.md#personal-data says where they are"
    )


async def _other_workspaces(client: ApiSession) -> list[str]:
    """Name the workspaces beside the one that was searched; none where that is not allowed."""
    try:
        known = (await client.get("workspaces"))["data"]
    except AccessError:
        return []
    return [one["name"] for one in known if client.workspace not in (one["id"], one["name"])]


def _say_suppression(show: Show, address: str, suppression: Any) -> None:
    # What others wrote is never taken for markup.
    show.say(f"[bold]{escape(address)}[/bold] {suppression_words(suppression)}")
    for cause in suppression["causes"] if suppression else []:
        since = moment(cause["suppressed_at"] or "")
        event = f" ({cause['event']})" if cause["event"] else ""
        stream = f" of the stream {cause['stream']}" if cause["stream"] else ""
        show.say(escape(f"  {cause['cause']}{stream} since {since}: {cause['reason']}{event}"))
    if suppression is not None and suppression["suppressed"]:
        show.say(f"  [dim]{lift_hint(address)}[/dim]")
    for lift in suppression["lifts"] if suppression else []:
        since, why = moment(lift["lifted_at"] or ""), lift["reason"] or "no reason given"
        was = "; ".join(lifted_causes(lift))
        which = f" (was {was})" if was else ""
        show.say(escape(f"  lifted {since} by {lifter_of(lift)}: {why}{which}"))


async def _find_message(client: ApiSession, message_id: str, address: str, source: str) -> Any:
    return await client.find("messages", message_id, recipient=address, source=source)


def _source_of(events: Sequence[Any], message_id: str) -> str:
    return next(str(one["source"]) for one in events if one["message_id"] == message_id)
