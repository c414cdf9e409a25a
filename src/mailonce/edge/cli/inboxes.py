"""`mailonce inbox` and `mailonce mail`: addresses that collect mail, and the mail in them."""

import contextlib
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer
from rich.markup import escape

from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.command import Yes, api_command, confirm, group
from mailonce.edge.cli.list_options import Cursor, Limit
from mailonce.edge.cli.mail_board import MailBoard, follow
from mailonce.edge.cli.refused_mail import show_refusals_of
from mailonce.edge.cli.show import Column, Show, moment
from mailonce.edge.cli.sources import Several, option_of
from mailonce.errors import ConfigError, MissingError

app = group("inbox", "Create, list, read, watch, rotate and delete inboxes.")

COLUMNS = (
    Column("address", "address", whole=True),
    Column("mails", "mails", right=True),
    Column("expires", "expires_at"),
    Column("id", "id", whole=True),
)
FIELDS = (
    "id", "address", "created_at", "expires_at", "metadata", "seq", "mails", "bytes", "mails_max",
    "bytes_max", "former_addresses",
)  # fmt: skip
UNMATCHED_COLUMNS = (
    Column("received", "received_at"),
    Column("to", "to", whole=True),
    Column("from", "mail_from", whole=True),
    Column("source", "source"),
    Column("bytes", "bytes", right=True),
    Column("id", "id", whole=True),
)
EMPTY = "no inboxes; make one: [bold]mailonce inbox create[/bold]"

InboxName = Annotated[str, typer.Argument(metavar="INBOX", help="its address, or its id")]


@api_command(app, "create", creates=True)
async def create(
    client: ApiSession,
    show: Show,
    local: Annotated[
        str | None, typer.Argument(metavar="LOCAL", help="before the @; default: random")
    ] = None,
    *,
    domain: Annotated[str | None, typer.Option(help="default: the workspace's first")] = None,
    ttl_s: Annotated[int | None, typer.Option(help="seconds until it is deleted")] = None,
    metadata: Annotated[Several, typer.Option(metavar="K=V", help="your own words")] = None,
) -> None:
    """Make an inbox."""
    body: dict[str, Any] = {"local": local, "domain": domain}
    body["metadata"] = dict(option_of("--metadata", one) for one in metadata or [])
    if ttl_s is not None:
        body["ttl_s"] = ttl_s
    made = await client.post("inboxes", body=body)
    if not show.answer(made):
        show.say(f"inbox [bold]{made['address']}[/bold] is ready ({made['id']})")


@api_command(app, "list")
async def list_(
    client: ApiSession, show: Show, *, limit: Limit = 50, cursor: Cursor = None
) -> None:
    """List the inboxes, newest first."""
    show.page(await client.some("inboxes", limit=limit, cursor=cursor), COLUMNS, empty=EMPTY)


@api_command(app, "show")
async def show_(client: ApiSession, show: Show, name: InboxName) -> None:
    """Show an inbox, mail that was not read yet or was refused, and since when a server listens."""
    try:
        inbox = await client.get("inboxes", name)
    except MissingError as error:
        domain = name.rpartition("@")[2]
        if domain == name or await client.find("domains", domain) is None:
            raise
        raise MissingError(
            f"{error}; mail to it that was refused: `mailonce domain show {quote(domain)}`"
        ) from None
    show.fields(inbox, FIELDS)
    if show.json:
        return
    # A server of before does not tell it.
    pending = inbox.get("pending")
    if pending is not None and pending["mails"]:
        show.say(f"\n{pending_words(pending)}")
    show_refusals_of(show, inbox)


@api_command(app, "unmatched")
async def unmatched(
    client: ApiSession, show: Show, *, limit: Limit = 50, cursor: Cursor = None
) -> None:
    """List mail that no inbox took, newest first."""
    page = await client.some("unmatched", limit=limit, cursor=cursor)
    if not show.json:
        page["data"] = [{**one, "to": ", ".join(one["recipients"])} for one in page["data"]]
    show.page(page, UNMATCHED_COLUMNS, empty="no mail was left without an inbox")
    if page["data"] and not show.json:
        show.say("[dim]docs/inboxes.md#mail-that-no-inbox-took says how an inbox adopts one[/dim]")


@api_command(app, "watch")
async def watch(
    client: ApiSession,
    show: Show,
    name: InboxName,
    *,
    after: Annotated[int, typer.Option(min=0, help="only mail behind this number")] = 0,
    count: Annotated[int | None, typer.Option(min=1, help="end after so many")] = None,
) -> None:
    """Show mail as it comes, until you press Ctrl-C."""
    client.require_server("no mail arrives")
    inbox = await client.get("inboxes", name)
    with contextlib.suppress(KeyboardInterrupt), MailBoard(show, inbox["address"]) as board:
        await follow(client, inbox["id"], board, after=after, count=count)


@api_command(app, "rotate")
async def rotate(
    client: ApiSession,
    show: Show,
    name: InboxName,
    *,
    local: Annotated[str | None, typer.Option(help="the new one; default: random")] = None,
    grace_s: Annotated[
        int | None, typer.Option(min=0, help="how long the old address takes mail")
    ] = None,
) -> None:
    """Give an inbox a new address."""
    made = await client.post("inboxes", name, "rotate", body={"local": local, "grace_s": grace_s})
    if not show.answer(made):
        until = made["former_addresses"][0]["until"]
        show.say(f"its address is [bold]{made['address']}[/bold]; the old one ends at {until}")


@api_command(app, "delete")
async def delete(client: ApiSession, show: Show, name: InboxName, *, yes: Yes = False) -> None:
    """Delete an inbox with all its mail."""
    inbox = await client.get("inboxes", name)
    confirm(f"Delete inbox {inbox['address']} and the {counted(inbox['mails'])} in it?", yes=yes)
    done = await client.delete("inboxes", name)
    if not show.answer(done):
        rest = "" if done["complete"] else "; the server goes on with the rest"
        show.say(f"deleted {name}: {counted(done['mails'])}, {done['bytes']:,} bytes{rest}")


def pending_words(pending: Any) -> str:
    """Say how much mail arrived and was not read yet, and why."""
    mails, error = pending["mails"], pending["last_error"]
    were = "was" if mails == 1 else "were"
    text = (
        f"{counted(mails)} arrived and {were} not read yet, the oldest at "
        f"{moment(pending['oldest_at'])}"
    )
    return escape(text if error is None else f"{text}; last error: {error}")


def counted(mails: int) -> str:
    """Write how many mails there are."""
    return f"{mails:,} mail{'' if mails == 1 else 's'}"


async def mail(
    client: ApiSession,
    show: Show,
    file: Annotated[Path, typer.Argument(metavar="FILE.eml", help="the mail, with its headers")],
    *,
    to: Annotated[str, typer.Option(help="address of an inbox")],
    sender: Annotated[str | None, typer.Option("--from", help="of the envelope")] = None,
) -> None:
    """Put a mail into an inbox, as if it had come over SMTP."""
    try:
        raw = file.read_bytes()
    except OSError as error:
        reason = error.strerror
        raise ConfigError(f"{str(file)!r} cannot be read ({reason}); correct it") from error
    query = {} if sender is None else {"from": sender}
    put = await client.post_bytes("inboxes", to, "messages", content=raw, query=query)
    if not show.answer(put):
        show.say(f"{put['id']} is {'in the inbox' if put['new'] else 'a copy of a mail there'}")
