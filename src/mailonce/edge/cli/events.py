"""`mailonce events` and `mailonce message`: what happened."""

import sys
from collections.abc import Iterable
from itertools import chain, groupby
from shlex import quote
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.text import Text

from mailonce.core.events.event import EventType
from mailonce.core.mail.address import read_address
from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.command import OptionsAnywhere, api_command
from mailonce.edge.cli.delivery_history import add_reruns
from mailonce.edge.cli.delivery_outcomes import next_attempt
from mailonce.edge.cli.inbox_messages import show_message
from mailonce.edge.cli.list_options import (
    Cursor,
    Limit,
    MessageId,
    Recipient,
    Since,
    SourceName,
    Until,
    empty_list,
)
from mailonce.edge.cli.removed_routes import name_removed_routes
from mailonce.edge.cli.send_history import histories
from mailonce.edge.cli.send_ids import about, is_send_key, send_id_of
from mailonce.edge.cli.show import STYLES, Column, Show, moment
from mailonce.errors import ConfigError, MissingError


class _ListByDefault(OptionsAnywhere):
    """`mailonce events --type bounced` means `mailonce events list --type bounced`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in {"-h", "--help"}):
            args = ["list", *args]
        return super().parse_args(ctx, args)


# By the beginning of an id: the command that shows what it names.
COMMANDS_OF_IDS = {
    "evt": "events show", "dlv": "delivery show", "dead": "dead show", "exp": "expectation show",
    "arr": "arrival show",
}  # fmt: skip

app = typer.Typer(name="events", help="List and show events.", cls=_ListByDefault)

# What was refused is no event, and its id is nowhere but in a sample.
REFUSED_HINT = "a webhook that was refused, as for its signature, is in `mailonce refusals`"

COLUMNS = (
    Column("received", "received_at"),
    Column("type", "type"),
    Column("recipient", "recipient", whole=True),
    Column("message", "message_id", whole=True),
    Column("source", "source_name"),
    Column("copies", "copies", right=True),
    Column("id", "id", whole=True),
)
FIELDS = (
    "id", "type", "bounce", "message_id", "recipient", "source_name", "provider", "occurred_at",
    "received_at", "reason", "url", "user_agent", "ip", "machine", "tags", "metadata", "copies",
    "recognised_by", "conflict_with", "conflicts", "suspect", "key",
)  # fmt: skip
TIMELINE = (
    Column("when", "when"),
    Column("what", "what"),
    Column("class", "bounce"),
    Column("copies", "copies", right=True),
    Column("detail", "detail", wraps=True),
    Column("id", "id", whole=True),
)
MAILS = (
    Column("received", "received_at"),
    Column("inbox", "address", whole=True),
    Column("seq", "seq", right=True),
    Column("id", "id", whole=True),
    Column("from", "from_address", whole=True),
    Column("subject", "subject", wraps=True),
)
# How an inbox's own id of a mail begins; a hook's has the provider's.
READ_HERE = "msg_"
# For each of these a question is asked.
UNMATCHED_MAX = 20
EMPTY = "no events yet; send some with [bold]mailonce demo[/bold], or see `mailonce source list`"


@api_command(app, "list")
async def list_(
    client: ApiSession,
    show: Show,
    *,
    type: Annotated[EventType | None, typer.Option(help="only this type")] = None,  # noqa: A002
    source: SourceName = None,
    recipient: Recipient = None,
    message_id: MessageId = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> None:
    """List events, newest first; --since and --until speak of when they were received."""
    times = {"since": since, "until": until}
    word = None if type is None else type.value
    wanted = {"type": word, "source": source, **await about(client, recipient, message_id)}
    page = await client.some("events", limit=limit, cursor=cursor, **wanted, **times)
    empty = empty_list("events", wanted | times, EMPTY)
    if not page["data"] and any(times.values()) and not show.json:
        empty += await _newest(client, wanted)
    show.page(page, COLUMNS, empty=empty)


async def _newest(client: ApiSession, wanted: dict[str, str | None]) -> str:
    """Say when the newest event was received that the other filters match."""
    newest = (await client.get("events", limit=1, **wanted))["data"]
    return f"; the newest was received {moment(newest[0]['received_at'])}" if newest else ""


@api_command(app, "show")
async def show_(
    client: ApiSession,
    show: Show,
    event_id: Annotated[str, typer.Argument(metavar="ID", help="evt_…")],
) -> None:
    """Show one event; with --json also the element it was read from."""
    event = await client.get("events", event_id)
    show.fields(event, FIELDS)
    # A server of before does not count them.
    if event.get("conflicts") and not show.json:
        source = event["source_name"] or event["source"]
        hint = f"other content came under its key: `mailonce conflicts --source {source}`"
        show.console.print(Text(hint, "dim"), soft_wrap=True)


async def message(
    client: ApiSession,
    show: Show,
    message_id: Annotated[
        str,
        typer.Argument(
            metavar="MESSAGE_ID",
            help="its provider's, its Message-ID, snd_…, msg_…, or a send's key",
        ),
    ],
    *,
    source: Annotated[
        str | None, typer.Option(help="which account's, where two know this id")
    ] = None,
    recipient: Recipient = None,
    inbox: Annotated[
        str | None, typer.Option(help="a message of this inbox, by its seq or msg_…")
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="with --inbox: the mail as it came")] = False,
) -> None:
    """Show what became of a message, for each recipient; with --inbox, what it says."""
    if inbox is not None and raw:
        sys.stdout.buffer.write(
            await client.download("inboxes", inbox, "messages", message_id, "raw")
        )
        sys.stdout.buffer.flush()
        return
    if inbox is not None:
        await show_message(client, show, inbox, message_id)
        return
    if raw:
        raise ConfigError("`--raw` needs `--inbox`: only mail of an inbox is kept as it came")
    shown = await _find(client, message_id, source=source, recipient=recipient)
    if show.answer(shown):
        return
    parts = shown["recipients"] + ([shown["message_facts"]] if "message_facts" in shown else [])
    for index, facts in enumerate(parts):
        if index:
            show.say("")
        show.console.print(headline(facts))
        await complete_deliveries(client, facts["timeline"])
        rows = [*await histories(client, facts["timeline"]), *timeline_rows(facts["timeline"])]
        show.table(TIMELINE, rows, sparse=True)
    _show_mails(show, shown)
    await say_unmatched(client, show, [shown])
    if shown["truncated"]:
        show.say("[dim]there is more; narrow it with --recipient[/dim]")


def _show_mails(show: Show, shown: Any) -> None:
    """Say in which inboxes the mail is, and how it is read; or that it is gone."""
    # A server of before does not tell it.
    mails = shown.get("mails")
    if mails:
        show.say("\nin inboxes, newest first")
        show.table(MAILS, mails, sparse=True)
        place = f"{mails[0]['seq']} --inbox {escape(quote(mails[0]['address']))}"
        which = "it" if len(mails) == 1 else "the first"
        show.say(f"[dim]read {which}: `mailonce message {place}`[/dim]")
    else:
        say_mail_deleted(show, shown)


def say_mail_deleted(show: Show, shown: Any) -> None:
    """Say of a mail that came to an inbox that it was deleted there."""
    # A server of before does not tell it.
    if shown.get("mails") == [] and shown["message_id"].startswith(READ_HERE):
        show.say("[dim]it is in no inbox any more: its mail was deleted[/dim]")


async def _find(client: ApiSession, message_id: str, **query: str | None) -> Any:
    """Read a message by any id of it or, where none is known, by the key of its send."""
    try:
        return await client.get("messages", message_id, **query)
    except MissingError as error:
        if command := COMMANDS_OF_IDS.get(message_id.partition("_")[0]):
            raise MissingError(
                f"{message_id[:80]!r} is no message; see `mailonce {command} {message_id[:80]}`"
            ) from None
        if not await is_send_key(client, message_id):
            # Both have an @: it may be a Message-ID that nobody knows.
            if read_address(message_id) is not None:
                raise MissingError(
                    f"message {message_id[:80]!r} not found; see `mailonce events`, or, where it "
                    f"is an address, `mailonce recipient {quote(message_id[:80])}`; {REFUSED_HINT}"
                ) from None
            raise MissingError(f"{error}; {REFUSED_HINT}") from None
    return await client.get("messages", await send_id_of(client, message_id), **query)


async def say_unmatched(client: ApiSession, show: Show, messages: Iterable[Any]) -> None:
    """Say of mail that was received for whom there is no inbox; reading it would have named it."""
    people = [
        facts["recipient"]
        for message in messages
        if not message["message_id"].startswith(READ_HERE)
        for facts in message["recipients"]
        if "inbound" in facts["facts"]
    ]
    for address in list(dict.fromkeys(people))[:UNMATCHED_MAX]:
        if await client.find("inboxes", address) is None:
            hint = f"no inbox has the address {address}; see `mailonce inbox unmatched`"
            show.console.print(Text(hint, "yellow"), soft_wrap=True)


def timeline_rows(entries: Iterable[Any]) -> list[dict[str, Any]]:
    """Give the rows of a timeline: the send, the events and their deliveries, and replies."""
    rows: list[dict[str, Any]] = []
    for kind, some in groupby(entries, key=lambda entry: str(entry["kind"])):
        if kind == "delivery":
            # Of one event, each in its own order: a redelivery may come after another delivery.
            rows += sorted(chain.from_iterable(map(_delivery_rows, some)), key=_when)
        else:
            rows += [_timeline_row(entry) for entry in some]
    return rows


def _when(row: Any) -> str:
    return str(row["when"] or "")


def _delivery_rows(entry: Any) -> list[dict[str, Any]]:
    """Give what a delivery is now, behind who had it sent again and its first delivery."""
    row = _timeline_row(entry)
    rows = [*entry.get("sent_again", ()), row]
    # A server of before does not tell it.
    first = entry.get("first_delivered_at")
    if first in {None, entry["done_at"]}:
        return rows
    route = entry["route_name"] or entry["route"]
    if entry["state"] == "delivered":
        row["what"] += " again"
    return [{"when": first, "what": f"→ {route}: delivered", "id": entry["id"]}, *rows]


async def complete_deliveries(client: ApiSession, entries: Iterable[Any]) -> None:
    """Write beside the deliveries of a timeline what people want to read of them."""
    deliveries = [entry for entry in entries if entry["kind"] == "delivery"]
    await name_removed_routes(client, deliveries)
    await add_reruns(client, deliveries)


def _timeline_row(entry: Any) -> dict[str, Any]:
    match entry["kind"]:
        case "delivery":
            route = entry["route_name"] or entry["route"]
            attempts = f"{entry['attempts']} attempt{'' if entry['attempts'] == 1 else 's'}"
            status = f"HTTP {entry['status']}" if entry["status"] else None
            # What was answered is said once.
            error = None if entry["error"] == f"answered {entry['status']}" else entry["error"]
            # A server of before does not tell it.
            is_again = bool(entry.get("redelivery_pending"))
            # What others wrote comes last: it may be cut.
            parts = [
                attempts, *_outcome(status, is_again=is_again), *_why_it_waits(entry),
                *_why_dismissed(entry), *_outcome(error, is_again=is_again),
            ]  # fmt: skip
            return {
                "when": entry["done_at"] or entry.get("pending_since") or entry["made_at"],
                "what": f"→ {route}: {'redelivery ' if is_again else ''}{entry['state']}",
                "detail": ", ".join(part for part in parts if part),
                "id": entry["id"],
            }
        case "send":
            sender, reason = entry["sender_name"] or entry["sender"], entry["reason"]
            # A suppressed send was not stopped by its sender.
            by = f"{reason} (sender {sender})" if reason else f"by {sender}"
            # A server of before does not tell it.
            subject = entry.get("subject")
            return {
                "when": entry["settled_at"] or entry["created_at"],
                "what": f"send {entry['state']}",
                "detail": f"{by}: {subject}" if subject else by,
                "id": entry["id"],
            }
        case "message":
            return {
                "when": entry["received_at"],
                "what": f"mail: {entry['relation']}",
                "detail": f"{entry['from_address']}: {entry['subject']}",
                "id": entry["id"],
            }
        case _:
            return {
                "when": entry.get("occurred_at") or entry.get("received_at"),
                "what": entry.get("type") or entry["kind"],
                "bounce": entry.get("bounce"),
                "copies": entry.get("copies"),
                "detail": entry.get("reason"),
                "id": entry.get("id"),
            }


def _outcome(text: str | None, *, is_again: bool) -> list[str]:
    """Give what an attempt met; of one before a redelivery that waits, say so."""
    return [f"before that {text}" if is_again else text] if text else []


def _why_it_waits(entry: Any) -> list[str]:
    """Say of a pending delivery what it waits for."""
    if entry["state"] != "pending":
        return []
    if not entry["route_on"]:
        # One that was removed is named as such.
        return [] if entry.get("route_removed") else ["the route is off"]
    down = ["endpoint down"] if entry["endpoint_down"] else []
    return [*down, next_attempt(entry) or "waits for its consumer"]


def _why_dismissed(entry: Any) -> list[str]:
    """Say of a failed delivery that a person dismissed it; a server of before does not tell."""
    if not entry.get("dismissed_at"):
        return []
    return [f"dismissed: {entry['dismissed_because'] or 'no reason given'}"]


def headline(facts: Any) -> Text:
    """Say in one line what is known of a recipient."""
    status = facts["status"] or _status_without_report(facts)
    line = Text.assemble(
        (facts.get("recipient", "(no recipient named)"), "bold"),
        "  ",
        (status, STYLES.get(status, "")),
    )
    if facts["engagement"]:
        line.append(f", {facts['engagement']}", STYLES.get(facts["engagement"], ""))
    return line


def _status_without_report(facts: Any) -> str:
    """Say where mail stands of which no provider has told anything."""
    if "inbound" in facts["facts"]:
        return "received"
    states = [entry["state"] for entry in facts["timeline"] if entry["kind"] == "send"]
    if states and "accepted" not in states:
        return f"send {states[-1]}"
    return "no report yet"
