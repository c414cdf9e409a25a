"""`mailonce send`, `mailonce sends` and `mailonce template`: mail that goes out, once."""

from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import orjson
import typer

from mailonce.core.sends.send_lifecycle import SendState
from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.command import Yes, api_command, confirm, group
from mailonce.edge.cli.events import TIMELINE, complete_deliveries, timeline_rows
from mailonce.edge.cli.list_options import Cursor, Limit, Recipient, Since, Until, empty_list
from mailonce.edge.cli.send_history import history
from mailonce.edge.cli.send_ids import send_id_of
from mailonce.edge.cli.show import Column, Show, moment
from mailonce.errors import ConfigError
from mailonce.send.acts import SendWord

app = group("sends", "List, show, cancel, resolve and resend sends.")
templates = group("template", "Put, list, show, preview and remove templates of mails.")

COLUMNS = (
    Column("created", "created_at"),
    Column("state", "state"),
    Column("to", "to", whole=True),
    Column("sender", "sender_name"),
    Column("reason", "reason", wraps=True),
    Column("key", "key", whole=True),
    Column("id", "id", whole=True),
)
STEPS = (
    Column("attempt", "attempt", right=True),
    Column("at", "at"),
    Column("step", "step"),
    Column("outcome", "outcome"),
    Column("reason", "reason", wraps=True),
)
TEMPLATES = (
    Column("name", "name"),
    Column("version", "version", right=True),
    Column("subject", "subject", wraps=True),
    Column("created", "created_at"),
)
FIELDS = (
    "id", "state", "to", "key", "stream", "sender_name", "priority", "template", "cause_id",
    "provider_message_id", "message_id", "subject", "reason", "needs_person", "resent", "forced",
    "created_at", "settled_at", "next",
)  # fmt: skip
EMPTY = "no sends yet; send one: [bold]mailonce send TO --from … --idempotency-key …[/bold]"

SendId = Annotated[str, typer.Argument(metavar="ID", help="snd_…, or its idempotency key")]
Reason = Annotated[str | None, typer.Option(help="why, for those who read it later")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="its name, or name@3 for a version")]


async def send(
    client: ApiSession,
    show: Show,
    to: Annotated[list[str], typer.Argument(metavar="TO", help="up to 1,000 addresses")],
    *,
    from_: Annotated[str, typer.Option("--from", help="'Shop <shop@example.com>'")],
    subject: Annotated[str | None, typer.Option(help="of the mail")] = None,
    text: Annotated[str | None, typer.Option(help="words, or @file.txt")] = None,
    html: Annotated[str | None, typer.Option(help="HTML, or @file.html")] = None,
    template: Annotated[str | None, typer.Option(help="name, or name@3")] = None,
    variables: Annotated[str | None, typer.Option(help="JSON, or @file.json")] = None,
    stream: Annotated[str, typer.Option(help="the class of mail")] = "",
    cause: Annotated[str | None, typer.Option(help="what causes it; makes the key")] = None,
    send_key: Annotated[
        str | None, typer.Option("--idempotency-key", help="the same for every try of this mail")
    ] = None,
    sender: Annotated[str | None, typer.Option(help="by which sender")] = None,
) -> None:
    """Send a mail, once: the same key and content again is the same send."""
    if send_key is None and cause is None:
        raise ConfigError(
            "this mail has no key: give --idempotency-key, made before the first try, or --cause"
        )
    body: dict[str, Any] = {
        "to": to if len(to) > 1 else to[0],
        "from": from_,
        "subject": subject,
        "text": _words(text),
        "html": _words(html),
        "template": template,
        "variables": _json(variables),
        "stream": stream,
        "cause_id": cause,
        "sender": sender,
    }
    given = {name: value for name, value in body.items() if value is not None}
    headers = {} if send_key is None else {"Idempotency-Key": send_key}
    answer = await client.post("sends", body=given, headers=headers)
    client.warn_without_server()
    if client.is_replay and not show.json:
        show.say("this key was sent before, with the same mail: nothing new is sent")
    if not show.answer(answer):
        show.table(COLUMNS, answer["data"] if len(to) > 1 else [answer])


@api_command(app, "list")
async def list_(
    client: ApiSession,
    show: Show,
    *,
    state: Annotated[
        str | None, typer.Option(metavar="STATE", help=", ".join(s.word for s in SendState))
    ] = None,
    recipient: Recipient = None,
    sent_key: Annotated[str | None, typer.Option("--idempotency-key", help="its key")] = None,
    sender: Annotated[str | None, typer.Option(help="only by this sender")] = None,
    stream: Annotated[str | None, typer.Option(help="only of this stream")] = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> None:
    """List sends, newest first."""
    filters = {
        "state": state, "recipient": recipient, "sender": sender,
        "stream": stream, "since": since, "until": until,
    }  # fmt: skip
    page = await client.some("sends", limit=limit, cursor=cursor, key=sent_key, **filters)
    given = {"idempotency_key": sent_key, **filters}
    show.page(page, COLUMNS, empty=empty_list("sends", given, EMPTY))


@api_command(app, "show")
async def show_(client: ApiSession, show: Show, id_: SendId) -> None:
    """Show a send with each attempt, and all that followed: events, deliveries and replies."""
    stored = await client.get("sends", await send_id_of(client, id_))
    show.fields(stored if show.json else stored | {"next": next_words(stored)}, FIELDS)
    if not show.json:
        if stored["attempts"]:
            show.table(STEPS, stored["attempts"], is_whole=True)
        await complete_deliveries(client, stored["timeline"])
        rows = [*history(stored), *timeline_rows(stored["timeline"])]
        show.table(TIMELINE, rows, sparse=True, is_whole=True)


@api_command(app, "cancel")
async def cancel(
    client: ApiSession, show: Show, id_: SendId, *, reason: Reason = None, yes: Yes = False
) -> None:
    """Keep a send from being sent; its key stays taken."""
    send_id = await send_id_of(client, id_)
    # One that has ended cannot be cancelled: nobody is asked about it.
    if (await client.get("sends", send_id))["settled_at"] is None:
        confirm(f"Cancel {id_}? It is never sent then, and its key stays taken.", yes=yes)
    _print(show, await _act(client, send_id, "cancel", reason=reason))


@api_command(app, "resolve")
async def resolve(
    client: ApiSession,
    show: Show,
    id_: SendId,
    outcome: Annotated[
        SendWord, typer.Argument(metavar="sent|not_sent", help="whether the provider has sent it")
    ],
    *,
    reason: Reason = None,
) -> None:
    """Say what became of a send whose outcome is unknown."""
    _print(show, await _act(client, id_, "resolve", outcome=outcome.value, reason=reason))


@api_command(app, "resend")
async def resend(
    client: ApiSession, show: Show, id_: SendId, *, reason: Reason = None, yes: Yes = False
) -> None:
    """Send again what is refused, suppressed or unknown."""
    send_id = await send_id_of(client, id_)
    if (await client.get("sends", send_id))["state"] == SendState.UNKNOWN.word:
        confirm("Its outcome is unknown: it may have been sent. Send it again?", yes=yes)
    _print(show, await _act(client, send_id, "resend", reason=reason))
    client.warn_without_server()


@api_command(templates, "put")
async def put_template(
    client: ApiSession,
    show: Show,
    name: Name,
    *,
    subject: Annotated[str, typer.Option(help="of its mails")],
    html: Annotated[str | None, typer.Option(help="HTML, or @file.html")] = None,
    text: Annotated[str | None, typer.Option(help="words, or @file.txt")] = None,
) -> None:
    """Make a template, or a new version of it."""
    body = {"subject": subject, "html": _words(html), "text": _words(text)}
    made = await client.put("templates", name, body=body)
    if not show.answer(made):
        show.say(f"template [bold]{name}[/bold] has version {made['version']}")


@api_command(templates, "list")
async def list_templates(
    client: ApiSession, show: Show, *, limit: Limit = 50, cursor: Cursor = None
) -> None:
    """List the newest version of each template."""
    page = await client.some("templates", limit=limit, cursor=cursor)
    show.page(page, TEMPLATES, empty="no templates yet; add one: mailonce template put NAME …")


@api_command(templates, "show")
async def show_template(client: ApiSession, show: Show, name: Name) -> None:
    """Show a template."""
    show.fields(await client.get("templates", name), ("name", "version", "subject", "html", "text"))


@api_command(templates, "preview")
async def preview_template(
    client: ApiSession,
    show: Show,
    name: Name,
    *,
    variables: Annotated[str | None, typer.Option(help="JSON, or @file.json")] = None,
) -> None:
    """Show what a mail would say; nothing is sent."""
    body = {"variables": _json(variables) or {}}
    mail = await client.post("templates", name, "preview", body=body)
    show.fields(mail, ("subject", "text", "html"))


@api_command(templates, "remove")
async def remove_template(client: ApiSession, show: Show, name: Name, *, yes: Yes = False) -> None:
    """Remove a template with all its versions."""
    confirm(f"Remove template {name} with all its versions?", yes=yes)
    await client.delete("templates", name)
    if not show.answer({"removed": name}):
        show.say(f"template [bold]{name}[/bold] is removed")


def next_words(send: Any) -> str | None:
    """Say what happens next, and what a person can do where the outcome is unknown."""
    name = quote(send["key"])
    look_up = f"look it up at the provider, then run `mailonce sends resolve {name} sent|not_sent`"
    if send["needs_person"]:
        return look_up
    at = moment(send["due_at"] or "")
    match send["next_step"]:
        # A server of before does not tell it.
        case "attempt" if send.get("sender_down"):
            sender = send["sender_name"] or send["sender"]
            return (
                f"waits for sender {sender}, which is taken to be down; one mail is tried at a time"
            )
        case "attempt" if send["calls"]:
            return f"attempt {send['calls'] + 1} at {at}"
        case "attempt":
            return f"it is sent at {at}"
        case "ask_provider":
            return f"the provider is asked at {at}; or {look_up}"
        case "ask_person":
            return f"a person is asked at {at}; {look_up}"
        case "send_again":
            return f"it is sent again at {at}; or {look_up}"
        case _:
            return None


async def _act(client: ApiSession, id_or_key: str, act: str, **body: str | None) -> Any:
    return await client.post("sends", await send_id_of(client, id_or_key), act, body=body)


def _print(show: Show, send: Any) -> None:
    if not show.answer(send):
        show.say(f"{send['id']} is {send['state']}")


def _words(text: str | None) -> str | None:
    if text is None or not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{text[1:]} cannot be read as text; name another file") from error


def _json(text: str | None) -> Any:
    words = _words(text)
    if words is None:
        return None
    try:
        return orjson.loads(words)
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"`--variables` is no JSON ({error}); correct it") from error
