"""`mailonce domain`: mail domains, and what was refused there because no inbox has the address."""

from typing import Annotated

import typer
from rich.markup import escape

from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.command import api_command, group
from mailonce.edge.cli.refused_mail import show_refused
from mailonce.edge.cli.show import Column, Show

app = group("domain", "List and show mail domains.")

COLUMNS = (
    Column("domain", "domain", whole=True),
    Column("origin", "origin"),
    Column("created", "created_at"),
)


@api_command(app, "list")
async def list_(client: ApiSession, show: Show) -> None:
    """List the mail domains; the first is that of inboxes which ask for none."""
    show.page(await client.get("domains"), COLUMNS, empty="no mail domains")


@api_command(app, "show")
async def show_(
    client: ApiSession,
    show: Show,
    domain: Annotated[str, typer.Argument(metavar="DOMAIN", help="such as in.example.com")],
) -> None:
    """Show a domain, and what was refused there within a day for want of an inbox."""
    shown = await client.get("domains", domain)
    show.fields(shown, ("domain", "origin", "created_at"))
    if show.json:
        return
    if shown["refused"]:
        show.say("\nrefused within a day, since no inbox has the address; the latest first")
        show_refused(show, shown["refused"])
    else:
        name = escape(shown["domain"])
        show.say(f"nothing was refused within a day for an address at {name} that no inbox has")
