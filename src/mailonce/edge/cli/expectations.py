"""`mailonce expectation`: which codes and links are expected, and why one came or did not."""

from shlex import quote
from typing import Annotated, Any

import typer
from rich.text import Text

from mailonce.core.expectations.expectation import ExpectationState
from mailonce.core.expectations.hint import READ_THE_MAIL
from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.command import api_command, group
from mailonce.edge.cli.list_options import Cursor, Limit, empty_list
from mailonce.edge.cli.show import Column, Show, printable

app = group("expectation", "List, show and explain expectations.")

COLUMNS = (
    Column("opened", "opened_at"),
    Column("state", "state"),
    Column("kind", "kind"),
    Column("mails", "mails", right=True),
    Column("address", "address", whole=True),
    Column("id", "id", whole=True),
    Column("reason", "reason", wraps=True),
)
FIELDS = (
    "id", "state", "reason", "kind", "address", "inbox", "opened_at", "deadline_at", "senders",
    "subject_contains", "code_format", "link_hosts", "states", "require_dmarc", "resends",
    "resends_left", "mails", "candidates", "artifact_id", "artifact_sender", "link", "consumption",
)  # fmt: skip
MAIL_COLUMNS = (
    Column("seq", "seq", right=True),
    Column("received", "received_at"),
    Column("from", "sender", whole=True),
    Column("outcome", "outcome"),
    Column("why", "why", wraps=True),
)
CANDIDATE_COLUMNS = (
    Column("of mail", "seq", right=True),
    Column("artifact", "artifact", whole=True),
    Column("score", "score", right=True),
    Column("link", "link"),
    Column("for", "speaks_for", wraps=True),
    Column("against", "speaks_against", wraps=True),
)
REFUSAL_COLUMNS = (
    Column("refused", "last_at"),
    Column("code", "code", right=True),
    Column("times", "times", right=True),
    Column("reason", "reason", wraps=True),
)
CONSUMPTION_COLUMNS = (
    Column("consumed", "consumed_at"),
    Column("state", "state"),
    Column("by", "who"),
    Column("artifact", "artifact", whole=True),
    Column("id", "id", whole=True),
)
EMPTY = "no expectations; docs/expectations.md shows how one is opened"

ExpectationId = Annotated[str, typer.Argument(metavar="ID", help="exp_…, or its beginning")]


@api_command(app, "list")
async def list_(
    client: ApiSession,
    show: Show,
    *,
    state: Annotated[ExpectationState | None, typer.Option(help="only in this state")] = None,
    inbox: Annotated[str | None, typer.Option(help="only of this inbox, by address or id")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> None:
    """List expectations, newest first."""
    id_ = None if inbox is None else (await client.get("inboxes", inbox))["id"]
    wanted = {"state": None if state is None else state.value, "inbox": id_}
    page = await client.some("expectations", limit=limit, cursor=cursor, **wanted)
    filters = wanted | {"inbox": inbox}
    show.page(page, COLUMNS, empty=empty_list("expectations", filters, EMPTY))


@api_command(app, "show")
async def show_(client: ApiSession, show: Show, expectation: ExpectationId) -> None:
    """Show an expectation and how it stands; never the value."""
    shown = await client.get("expectations", expectation)
    if show.answer(shown):
        return
    show.fields(_with_artifact(shown), FIELDS)
    why = f"`mailonce expectation explain {shown['id']}`"
    show.say(f"[dim]each mail, and why it counts or does not: {why}[/dim]")


@api_command(app, "explain")
async def explain(client: ApiSession, show: Show, expectation: ExpectationId) -> None:
    """Show each mail that came, what was found in it, and why it counts or does not."""
    shown = await client.get("expectations", expectation, "explain")
    if show.answer(shown):
        return
    show.fields(_with_artifact(shown), FIELDS)
    show.say("")
    if shown["judged"]:
        mails = [_mail_row(mail) for mail in shown["judged"]]
        show.table(MAIL_COLUMNS, mails, is_whole=True)
    else:
        show.say(f"no mail came since it was opened (behind seq {shown.get('watermark', 0)})")
    for mail in shown["judged"]:
        # An agent's key is given neither hints nor what quotes the mail.
        if mail.get("hint"):
            read = f"mailonce message {mail['seq']} --inbox {quote(shown['address'])}"
            hint = mail["hint"].replace(READ_THE_MAIL, f"read the mail with `{read}`")
            line = Text(f"mail {mail['seq']}: {printable(hint)}", "yellow")
            show.console.print(line, soft_wrap=True)
    for columns, rows in (
        (CANDIDATE_COLUMNS, _candidate_rows(shown["judged"])),
        (REFUSAL_COLUMNS, shown.get("refused")),
        (CONSUMPTION_COLUMNS, [_consumption_row(one) for one in shown.get("consumptions", ())]),
    ):
        if rows:
            show.say("")
            show.table(columns, rows, sparse=True, is_whole=True)
    if any(mail.get("envelope") is not None for mail in shown["judged"]):
        # The value itself stands nowhere but in the mail.
        read = f"`mailonce message SEQ --inbox {shown['address']}`"
        show.say(f"\n[dim]read the code or link in its mail: {read}[/dim]")
    elif shown["judged"] and all("envelope" in mail for mail in shown["judged"]):
        show.say("\n[dim]its mail was deleted: the code or link cannot be read any more[/dim]")


def _with_artifact(shown: Any) -> dict[str, Any]:
    artifact = shown["artifact"] or {}
    return {
        **shown,
        "artifact_id": artifact.get("id"),
        "artifact_sender": artifact.get("sender"),
        "link": _link(artifact.get("guard") or {}),
    }


def _link(guard: Any) -> str | None:
    words = [guard.get("host"), guard.get("verdict"), guard.get("reason")]
    return ", ".join(word for word in words if word) or None


def _mail_row(mail: Any) -> dict[str, Any]:
    """Give a mail with the matchers that it did not pass."""
    failed = [
        f"{one['matcher']}: {one['reason']}" if one["reason"] else str(one["matcher"])
        for one in mail["matchers"]
        if not one["passed"]
    ]
    is_said = not mail["reason"] or any(mail["reason"] in one for one in failed)
    return {**mail, "why": "; ".join(failed if is_said else [*failed, mail["reason"]])}


def _consumption_row(one: Any) -> dict[str, Any]:
    return {**one, "who": one["by_name"] or one["by"]}


def _candidate_rows(mails: Any) -> list[dict[str, Any]]:
    return [
        {
            **one,
            "seq": mail["seq"],
            "link": _link({"verdict": one["guard"], "host": one["host"]}),
            "speaks_for": one["speaks_for"] or None,
            "speaks_against": one["speaks_against"] or None,
        }
        for mail in mails
        for one in mail.get("found", ())
    ]
