"""`mailonce sender`: how mail goes out."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from mailonce.core.sends.sender import SendMode, Tls
from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.command import Yes, api_command, confirm, group, with_options
from mailonce.edge.cli.file_records import warn_of_file
from mailonce.edge.cli.show import Column, Show
from mailonce.edge.cli.sources import Several, named_first, option_of
from mailonce.errors import ConfigError
from mailonce.providers import sending

app = group("sender", "Create, list, show, set and delete senders.")

COLUMNS = (
    Column("name", "name"),
    Column("provider", "provider"),
    Column("on", "on"),
    Column("concurrency", "concurrency", right=True),
    Column("next", "next_sender"),
    Column("id", "id", whole=True),
)
EMPTY = "no senders yet; make one: [bold]mailonce sender create out --provider smtp --host …[/bold]"
# Of a sender as it is shown: who it is, its state, and how many credentials it has.
NOT_SETTINGS = {"id", "name", "on", "off_reason", "secrets", "password", "readable"}
# What a provider needs, as it is asked for.
CREDENTIALS = {"secrets": "secret", "password": "password"}
# Options that are read before they are settings.
NOT_PLAIN = {"option", *CREDENTIALS.values()}
STDIN = "-"

SenderName = Annotated[str, typer.Argument(metavar="NAME", help="its name, or its id")]
# What `create` and `set` share, by the name of the setting; credentials and options are read first.
OPTIONS: dict[str, Any] = {
    "secret": Annotated[
        Several,
        typer.Option(help="API key or token: @file, or - for standard input; else you are asked"),
    ],
    "username": Annotated[str | None, typer.Option(help="where credentials have two halves")],
    "password": Annotated[
        str | None, typer.Option(help="@file, or - for standard input; else you are asked")
    ],
    "host": Annotated[str | None, typer.Option(help="of an SMTP server")],
    "port": Annotated[int | None, typer.Option(help="of an SMTP server")],
    "tls": Annotated[Tls | None, typer.Option(help="how SMTP is encrypted")],
    "region": Annotated[str | None, typer.Option(help="where the provider has several")],
    "domain": Annotated[
        str | None, typer.Option(help="the sending domain, where the provider asks")
    ],
    "endpoint": Annotated[str | None, typer.Option(help="another base URL of the provider's API")],
    "option": Annotated[Several, typer.Option(metavar="K=V", help="an option of this provider")],
    "concurrency": Annotated[int | None, typer.Option(help="calls at once")],
    "rate_per_s": Annotated[float | None, typer.Option("--rate-per-s", help="calls a second")],
    "timeout_s": Annotated[
        float | None, typer.Option("--timeout-s", help="how long a call may take")
    ],
    "mode": Annotated[SendMode | None, typer.Option(help="what becomes of an unknown outcome")],
    "next_sender": Annotated[
        str | None,
        typer.Option("--next-sender", help="takes what this one did certainly not send"),
    ],
}


@api_command(app, "create")
@with_options(OPTIONS)
async def create(
    client: ApiSession,
    show: Show,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    *,
    provider: Annotated[str, typer.Option(help="the mail service, e.g. smtp or ses")],
    **options: Any,
) -> None:
    """Make a sender; the first one is the default."""
    given = _settings(options)
    if not given.keys() & {"secret", "password"}:
        given |= _ask(provider, options["username"])
    body = {"name": name, "provider": provider, "options": _own_options(options), **given}
    made = await client.post("senders", body=body)
    if not show.answer(made):
        show.say(f"sender [bold]{name}[/bold] is ready; try it: mailonce send … --sender {name}")


@api_command(app, "list")
async def list_(client: ApiSession, show: Show) -> None:
    """List the senders, the default first."""
    show.page(await client.get("senders"), COLUMNS, empty=EMPTY)


@api_command(app, "show")
async def show_(client: ApiSession, show: Show, name: SenderName) -> None:
    """Show a sender; of its credentials, whether there are any."""
    sender = await client.get("senders", name)
    show.fields(sender, named_first(sender))


@api_command(app, "set")
@with_options(OPTIONS)
async def set_(
    client: ApiSession,
    show: Show,
    name: SenderName,
    *,
    on: Annotated[bool, typer.Option("--on", help="let it send again")] = False,
    off: Annotated[
        str | None, typer.Option(metavar="REASON", help="send nothing by it; its mails wait")
    ] = None,
    **options: Any,
) -> None:
    """Change what is named, and leave the rest; switch it on or off."""
    if on and off is not None:
        raise ConfigError("`--on` and `--off` stand together; leave one of them out")
    given, own = _settings(options), _own_options(options)
    stands = await client.get("senders", name)
    if given or own:
        body = {field: value for field, value in stands.items() if field not in NOT_SETTINGS}
        body |= {**given, "options": {**body["options"], **own}}
        stands = await client.put("senders", name, body=body)
    if on:
        stands = await client.post("senders", name, "on", body={})
    elif off is not None:
        stands = await client.post("senders", name, "off", body={"reason": off})
    show.fields(stands, named_first(stands))
    if (given or own) and not show.json:
        warn_of_file(show, "sender", stands)


@api_command(app, "delete")
async def delete(client: ApiSession, show: Show, name: SenderName, *, yes: Yes = False) -> None:
    """Delete a sender, once all of its mails are settled."""
    confirm(f"Delete sender {name} with its credentials?", yes=yes)
    sender = await client.get("senders", name)
    await client.delete("senders", name)
    if not show.answer({"deleted": name}):
        show.say(f"sender [bold]{name}[/bold] is deleted; what it sent stays in the ledger")
        warn_of_file(show, "sender", sender)


def _settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Give the settings that are named, with their credentials read."""
    read = _credentials(options["secret"], options["password"])
    plain = {name: value for name, value in options.items() if value is not None}
    return {name: value for name, value in plain.items() if name not in NOT_PLAIN} | read


def _own_options(options: Mapping[str, Any]) -> dict[str, Any]:
    return dict(option_of("--option", one) for one in options["option"] or [])


def _credentials(secret: list[str] | None, password: str | None) -> dict[str, Any]:
    """Read the credentials that the options name."""
    given: dict[str, Any] = {}
    if [*(secret or []), password].count(STDIN) > 1:
        raise ConfigError("standard input holds one credential; name a file for the other")
    if secret:
        given["secret"] = [_read("--secret", one) for one in secret]
    if password is not None:
        given["password"] = _read("--password", password)
    return given


def _read(option: str, text: str) -> str:
    """Read a credential from a file or standard input; on the command line others would see it."""
    if text == STDIN:
        words = sys.stdin.read()
    elif text.startswith("@"):
        try:
            words = Path(text[1:]).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"`{option}`: {text[1:]} cannot be read; name another") from error
    else:
        raise ConfigError(
            f"`{option}` is not written on the command line, where others see it; "
            "put it into a file and write @file, or - for standard input"
        )
    if not words.strip():
        raise ConfigError(f"`{option}` is empty; put the credential into the file")
    return words.strip()


def _ask(provider: str, username: str | None) -> dict[str, Any]:
    """Ask for the credentials that a provider needs, where somebody sits at the terminal."""
    known = sending.find(provider)
    if known is None or not sys.stdin.isatty():
        return {}
    needs = [name for name in CREDENTIALS if name in known.needs]
    if username is not None and "password" not in needs:
        needs.append("password")
    return {
        CREDENTIALS[name]: typer.prompt(f"{known.title}: {CREDENTIALS[name]}", hide_input=True)
        for name in needs
    }
