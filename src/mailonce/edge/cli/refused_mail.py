"""Mail that was refused to an inbox or a domain, in words."""

from collections.abc import Sequence
from typing import Any

from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.show import Column, Show, moment

COLUMNS = (
    Column("last", "last_at"),
    Column("times", "times", right=True),
    Column("code", "code", right=True),
    Column("reason", "reason", wraps=True),
    Column("address", "address", whole=True),
)


def show_refused(show: Show, refused: Sequence[Any]) -> None:
    """List what was refused, and how often; minutes are what is counted."""
    show.table(COLUMNS, refused, is_whole=True)


def show_refusals_of(show: Show, inbox: Any) -> None:
    """Say what an inbox was refused, and since when mail can come at all."""
    # A server of before does not tell it.
    if refused := inbox.get("refused"):
        show.say("\nrefused to this inbox, the latest first")
        show_refused(show, refused)
    if "listening_since" not in inbox:
        return
    since = inbox["listening_since"]
    if since is None:
        show.say("[dim]no server listens for mail over SMTP now[/dim]")
    else:
        show.say(f"[dim]mail over SMTP is listened for since {moment(since)}, without a gap[/dim]")


def times_refused(inbox: Any) -> int:
    """Count the mails that were refused to an inbox."""
    return sum(int(one["times"]) for one in inbox.get("refused", []))


async def refusals_of_address(client: ApiSession, address: str) -> list[Any]:
    """List what was refused to an address since no inbox has it; its domain knows the last day."""
    domain = await client.find("domains", address.rpartition("@")[2])
    # A server of before does not tell it.
    refused = (domain or {}).get("refused", [])
    return [one for one in refused if one["address"] == address]


def show_refusals_of_address(show: Show, refused: Sequence[Any]) -> None:
    if refused:
        show.say("\nmail to it that was refused within a day, since no inbox has the address")
        show_refused(show, refused)
