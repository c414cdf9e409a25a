"""`mailonce arrival`: what became of a webhook, by the id that its provider was answered."""

from typing import Annotated, Any

import typer

from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.command import api_command, group
from mailonce.edge.cli.show import Column, Show

app = group("arrival", "Show what became of a webhook.")

FIELDS = ("id", "received_at", "source_name", "status", "meaning", "bytes", "key")
MEANINGS = {
    "accepted": "something in it was new, and was recorded",
    "duplicate": "all of it was known already; nothing was recorded again",
    "conflict": "it had other content under a known key: `mailonce conflicts`",
    "dead_letter": "it could not be read: `mailonce dead show ID`",
    "ignored": "it held nothing to record",
}
OUTCOMES = (
    Column("what", "what"),
    Column("id", "id", whole=True),
    Column("detail", "detail", wraps=True),
)


@api_command(app, "show")
async def show_(
    client: ApiSession,
    show: Show,
    arrival_id: Annotated[
        str, typer.Argument(metavar="ID", help="arr_…, from the answer to a webhook")
    ],
) -> None:
    """Show what was recorded of a webhook: events, mail, dead letters, or whose copy it was."""
    arrival = await client.get("arrivals", arrival_id)
    if show.answer(arrival):
        return
    show.fields({**arrival, "meaning": MEANINGS.get(arrival["status"])}, FIELDS)
    rows = _rows(arrival)
    if rows:
        show.say("")
        show.table(OUTCOMES, rows, sparse=True, is_whole=True)
    elif arrival["status"] == "duplicate":
        show.say("\nof what it was a copy is not kept; it may be in `mailonce dead list`")
    if arrival["truncated"]:
        show.say("[dim]there is more than is shown[/dim]")


def _rows(arrival: Any) -> list[dict[str, Any]]:
    def one(what: str, id_: str, detail: str | None = None) -> dict[str, Any]:
        return {"what": what, "id": id_, "detail": detail}

    return [
        *(one("event", id_) for id_ in arrival["events"]),
        *(_mail_row(mail) for mail in arrival["mails"]),
        *(
            one("copy of", copy["event"] or copy["message"] or copy["mail"],
                f"recognised by {copy['recognised_by']}")
            for copy in arrival["copies"]
        ),
        *(one("conflict with", other["event"], other["reason"]) for other in arrival["conflicts"]),
        *(one("dead letter", id_) for id_ in arrival["dead_letters"]),
    ]  # fmt: skip


def _mail_row(mail: Any) -> dict[str, Any]:
    if mail["inbox"] is None:
        detail = "no inbox took it: `mailonce inbox unmatched`"
    else:
        detail = f"in inbox {mail['inbox']}"
    return {"what": "mail", "id": mail["message"] or mail["id"], "detail": detail}
