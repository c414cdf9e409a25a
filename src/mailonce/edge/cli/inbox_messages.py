"""`mailonce inbox messages`, `save` and `delete-message`: the mail of an inbox."""

from collections import deque
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.text import Text

from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.command import Yes, confirm
from mailonce.edge.cli.inboxes import InboxName
from mailonce.edge.cli.list_options import Limit, Since, Until, empty_list
from mailonce.edge.cli.refused_mail import show_refusals_of, times_refused
from mailonce.edge.cli.show import Column, Show, printable
from mailonce.errors import ConfigError, GoneError, MissingError

PAGE_ROWS = 100
# Of one name there are as many files in a folder, and then no more.
SAME_NAME_MAX = 100
# With room for a number; no file system takes more than 255.
NAME_BYTES_MAX = 240
SUFFIX_BYTES_MAX = 20
COLUMNS = (
    Column("seq", "seq", right=True),
    Column("received", "received_at"),
    Column("id", "id", whole=True),
    Column("from", "sender", whole=True),
    Column("files", "files", right=True),
    Column("copies", "repeats", right=True),
    Column("subject", "subject", wraps=True),
)
FILE_COLUMNS = (
    Column("attachment", "id", whole=True),
    Column("type", "type"),
    Column("bytes", "bytes", right=True),
    Column("name", "name", wraps=True),
)
FIELDS = ("id", "seq", "address", "from", "to", "subject", "received_at", "copies", "problems")
EMPTY = "no mail in this inbox; put some in: [bold]mailonce mail FILE.eml --to ADDRESS[/bold]"

MessageName = Annotated[str, typer.Argument(metavar="MESSAGE", help="its seq, or msg_…")]


async def messages(
    client: ApiSession,
    show: Show,
    name: InboxName,
    *,
    sender: Annotated[str | None, typer.Option(help="from this address, or @domain")] = None,
    subject: Annotated[str | None, typer.Option(help="with these words in the subject")] = None,
    since: Since = None,
    until: Until = None,
    after: Annotated[
        int, typer.Option(min=0, metavar="SEQ", help="only mail behind this number")
    ] = 0,
    limit: Limit = 50,
) -> None:
    """List the newest mail of an inbox, in its order."""
    inbox = await client.get("inboxes", name)
    which = {"sender": sender, "subject": subject, "since": since, "until": until}
    rows = await newest(client, inbox, which, limit=limit, after=after)
    proof = {name: inbox[name] for name in ("listening_since", "refused") if name in inbox}
    deleted = inbox["seq"] - inbox["mails"]
    if show.answer({"data": rows, "next": None, "deleted": deleted, **proof}):
        return
    shown = {"data": [_row(one) for one in rows], "next": None}
    refused = times_refused(inbox)
    ends = {"deleted": deleted, "refused": refused}
    counts = ", ".join(f"{many:,} {end}" for end, many in ends.items() if many)
    otherwise = f"no mail in this inbox: {counts}" if counts else EMPTY
    given = which | {"after": f"{after}" if after else None}
    show.page(shown, COLUMNS, empty=empty_list("mail", given, otherwise))
    if rows:
        place = escape(quote(inbox["address"]))
        show.say(f"[dim]read one: `mailonce message SEQ --inbox {place}`[/dim]")
    if rows and deleted:
        show.say(f"[dim]not listed: {deleted:,} deleted from this inbox[/dim]")
    if len(rows) == limit:
        show.say("[dim]there may be older mail: raise --limit, or add a filter[/dim]")
    show_refusals_of(show, inbox)


async def show_message(client: ApiSession, show: Show, inbox: str, name: str) -> None:
    """Show what a message says, and its attachments."""
    shown = await client.get("inboxes", inbox, "messages", name)
    if show.answer(shown):
        return
    writers = {"from": _mailbox(shown["from"]), "to": [_mailbox(one) for one in shown["to"]]}
    show.fields({**shown, **writers}, FIELDS)
    show.console.print(Text("\n" + printable(shown["text"] or "")))
    place = escape(quote(inbox))
    if shown["attachments"]:
        show.say("")
        show.table(FILE_COLUMNS, shown["attachments"], is_whole=True)
        show.say(f"[dim]save them: `mailonce inbox save {place} {shown['seq']}`[/dim]")
    as_it_came = f"`mailonce message {shown['seq']} --inbox {place} --raw`"
    show.say(f"\n[dim]as it came: {as_it_came}[/dim]")


async def save(
    client: ApiSession,
    show: Show,
    name: InboxName,
    message: MessageName,
    attachments: Annotated[
        list[str] | None, typer.Argument(metavar="ATTACHMENT", help="att_…; default: all")
    ] = None,
    *,
    into: Annotated[Path, typer.Option(help="the folder to save them in")] = Path(),
) -> None:
    """Save the attachments of a message as files; none that exists is overwritten."""
    shown = await client.get("inboxes", name, "messages", message)
    known = {one["id"]: one for one in shown["attachments"]}
    if not known:
        raise MissingError("this message has no attachments; `mailonce message --raw` gives it all")
    chosen = [_known(one, list(known)) for one in attachments or known]
    saved: list[dict[str, Any]] = []
    for id_ in chosen:
        path = ("inboxes", name, "messages", shown["id"], "attachments", id_)
        content = await client.download(*path)
        file = write_new(into, known[id_]["name"] or id_, content)
        saved.append({"id": id_, "file": str(file), "bytes": len(content)})
    if not show.answer({"data": saved}):
        for one in saved:
            show.console.print(
                f"saved {printable(one['file'])} ({one['bytes']:,} bytes)",
                markup=False,
                soft_wrap=True,
            )


async def delete_message(
    client: ApiSession, show: Show, name: InboxName, message: MessageName, *, yes: Yes = False
) -> None:
    """Delete one mail of an inbox; the same mail again stays deleted."""
    shown = await client.get("inboxes", name, "messages", message)
    subject = printable(shown["subject"] or "no subject")
    confirm(f"Delete mail {shown['seq']} ({subject}) for good?", yes=yes)
    done = await client.delete("inboxes", name, "messages", shown["id"])
    if not show.answer(done):
        show.say(f"deleted {shown['id']}: {done['bytes']:,} bytes")


async def newest(
    client: ApiSession,
    inbox: Any,
    which: dict[str, str | None],
    *,
    limit: int,
    after: int = 0,
) -> list[Any]:
    """Read the last messages behind a number; where numbers are missing, from there."""
    wanted = min(limit, inbox["mails"])
    is_all = not any(which.values())
    first = max(after, inbox["seq"] - limit) if is_all else after
    rows = await _behind(client, inbox, which, after=first, limit=limit)
    if is_all and len(rows) < wanted and first > after:
        rows = await _behind(client, inbox, which, after=after, limit=limit)
    return rows


async def _behind(
    client: ApiSession, inbox: Any, which: dict[str, str | None], *, after: int, limit: int
) -> list[Any]:
    """Read up to the end that the inbox has now, and keep the last."""
    after = max(0, after)
    kept: deque[Any] = deque(maxlen=limit)
    while after < inbox["seq"]:
        try:
            page = await client.get(
                "inboxes", inbox["id"], "messages", after=after, limit=PAGE_ROWS, **which
            )
        except GoneError as error:
            # What was deleted is not to be listed.
            after = int(error.members["next"])
            continue
        if page["next"] <= after:
            break
        kept.extend(one | {"copies": page["copies"].get(one["id"], 0)} for one in page["data"])
        after = page["next"]
    return list(kept)


def _known(text: str, ids: list[str]) -> str:
    """Complete the id of an attachment."""
    matches = [one for one in ids if one.startswith(text.removesuffix("…"))]
    if len(matches) != 1:
        word = "several attachments" if matches else "no attachment"
        raise MissingError(f"{text[:80]!r} names {word} of this message; it has {', '.join(ids)}")
    return matches[0]


def _row(message: Any) -> dict[str, Any]:
    sender = (message["from"] or {}).get("address")
    files, copies = len(message["attachments"]) or None, message["copies"] or None
    return {**message, "sender": sender, "files": files, "repeats": copies}


def _mailbox(one: Any) -> str | None:
    if one is None:
        return None
    return f"{one['name']} <{one['address']}>" if one["name"] else str(one["address"])


def write_new(folder: Path, name: str, content: bytes) -> Path:
    """Write a new file; where one has its name, under the name with a number.

    The server has cleaned the name; that it is no path is checked again here, where it counts.
    """
    plain = Path(Path(name).name.lstrip(".") or "attachment")
    suffix = plain.suffix if len(plain.suffix.encode()) <= SUFFIX_BYTES_MAX else ""
    # Letters of most scripts take several bytes, and bytes are what file systems count.
    whole = plain.name.removesuffix(suffix).encode()
    stem = whole[: NAME_BYTES_MAX - len(suffix.encode())].decode(errors="ignore")
    for number in range(1, SAME_NAME_MAX + 1):
        file = folder / (f"{stem}{suffix}" if number == 1 else f"{stem} ({number}){suffix}")
        try:
            with file.open("xb") as target:
                target.write(content)
        except FileExistsError:
            continue
        except OSError as error:
            raise ConfigError(
                f"{str(file)!r} cannot be written ({error.strerror}); name a folder with --into"
            ) from error
        return file
    raise ConfigError(
        f"{str(folder)!r} has {SAME_NAME_MAX} files of that name; name another with --into"
    )
