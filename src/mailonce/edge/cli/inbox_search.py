"""Mail from one address in all inboxes, for `mailonce recipient`."""

from shlex import quote
from typing import Any

from rich.markup import escape

from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.inbox_messages import newest
from mailonce.edge.cli.show import Column, Show
from mailonce.errors import MissingError

# No index leads from a sender to its mail: each inbox is read through, the newest ones first.
INBOXES_MAX = 500
MAILS_MAX = 20

COLUMNS = (
    Column("received", "received_at"),
    Column("inbox", "inbox", whole=True),
    Column("seq", "seq", right=True),
    Column("subject", "subject", wraps=True),
)


async def find_mail_from(client: ApiSession, address: str) -> dict[str, Any]:
    """List the newest mail from an address; `complete` is false where there may be more."""
    page = await client.some("inboxes", limit=INBOXES_MAX)
    rows: list[dict[str, Any]] = []
    for inbox in page["data"]:
        if not inbox["mails"]:
            continue
        try:
            mails = await newest(client, inbox, {"sender": address}, limit=MAILS_MAX + 1)
        except MissingError:
            # Between two questions an inbox may be deleted, with its mail.
            continue
        rows += (
            {
                "id": one["id"], "inbox": inbox["address"], "seq": one["seq"],
                "received_at": one["received_at"], "subject": one["subject"],
            }
            for one in mails
        )  # fmt: skip
    rows.sort(key=lambda one: str(one["received_at"]), reverse=True)
    is_complete = page["next"] is None and len(rows) <= MAILS_MAX
    return {"data": rows[:MAILS_MAX], "complete": is_complete}


def show_mail_from(show: Show, address: str, mails: dict[str, Any]) -> None:
    """Print what `find_mail_from` gave, and where it did not look."""
    if mails["data"]:
        show.say("\nmail from this address in inboxes, newest first")
        show.table(COLUMNS, mails["data"], sparse=True)
        show.say("[dim]read one: `mailonce message SEQ --inbox INBOX`[/dim]")
    else:
        show.say("\nno mail from this address in inboxes")
    if not mails["complete"]:
        show.say(
            f"there may be more: the newest {MAILS_MAX} mails of the newest {INBOXES_MAX} inboxes "
            f"are shown; see `mailonce inbox messages INBOX --sender {escape(quote(address))}`"
        )
