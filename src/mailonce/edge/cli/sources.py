"""`mailonce source`: the accounts that may send us webhooks."""

from typing import Annotated, Any

import orjson
import typer

from mailonce.core.arrivals.source import Poison
from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.command import api_command, group
from mailonce.edge.cli.show import Column, Show
from mailonce.errors import ConfigError

app = group("source", "Add, list, show and remove sources.")

COLUMNS = (
    Column("name", "name"),
    Column("provider", "provider"),
    Column("account", "account"),
    Column("point the webhook at", "url"),
    Column("id", "id", whole=True),
)
NOT_SHOWN = {"poison_attempts", "silence_s", "readable"}
EMPTY = (
    "no sources yet; add one: [bold]mailonce source add main --provider sendgrid "
    "--public-key …[/bold]"
)

SourceName = Annotated[str, typer.Argument(metavar="NAME", help="its name, or its id")]
Several = list[str] | None


@api_command(app, "add", creates=True)
async def add(
    client: ApiSession,
    show: Show,
    name: Annotated[str, typer.Argument(metavar="NAME", help="POST /in/NAME")],
    *,
    provider: Annotated[str, typer.Option(help="the mail service, e.g. sendgrid")],
    secret: Annotated[Several, typer.Option(help="HMAC secret; may be repeated")] = None,
    public_key: Annotated[
        Several, typer.Option(help="public key or certificate; may be repeated")
    ] = None,
    basic: Annotated[Several, typer.Option(help="user:password")] = None,
    token: Annotated[Several, typer.Option(help="secret at the end of the URL")] = None,
    header: Annotated[Several, typer.Option(help="'Name: value' to demand")] = None,
    allow_ip: Annotated[Several, typer.Option(help="address or network")] = None,
    topic_arn: Annotated[Several, typer.Option(help="allowed SNS topic")] = None,
    account: Annotated[str | None, typer.Option(help="scope of keys; default: NAME")] = None,
    poison: Annotated[
        Poison, typer.Option(help="what becomes of verified, unreadable arrivals")
    ] = Poison.DEAD_LETTER,
    option: Annotated[
        Several, typer.Option(metavar="K=V", help="an option of this provider")
    ] = None,
    unproven: Annotated[bool, typer.Option("--unproven", help="accept without proof")] = False,
    unsigned: Annotated[
        bool, typer.Option("--unsigned", help="require --basic or the like, but no signature")
    ] = False,
) -> None:
    """Add a source, then point the provider's webhook at it."""
    body: dict[str, Any] = {
        "name": name,
        "provider": provider,
        "account": account,
        "secret": secret or [],
        "public_key": public_key or [],
        "basic": basic or [],
        "token": token or [],
        "header": header or [],
        "allow_ips": allow_ip or [],
        "topic_arns": topic_arn or [],
        "unproven": unproven,
        "unsigned": unsigned,
        "poison": poison.value,
        "options": dict(option_of("--option", one) for one in option or []),
    }
    made = await client.post("sources", body=body)
    if not show.answer(made):
        show.say(f"source [bold]{name}[/bold] is ready; point the webhook at {made['url']}")


@api_command(app, "list")
async def list_(client: ApiSession, show: Show) -> None:
    """List the sources."""
    show.page(await client.get("sources"), COLUMNS, empty=EMPTY)


@api_command(app, "show")
async def show_(client: ApiSession, show: Show, name: SourceName) -> None:
    """Show a source; of its secrets, how many there are."""
    source = await client.get("sources", name)
    show.fields(source, [name for name in named_first(source) if name not in NOT_SHOWN])


@api_command(app, "remove")
async def remove(client: ApiSession, show: Show, name: SourceName) -> None:
    """Remove a source; its events stay."""
    await client.delete("sources", name)
    if not show.answer({"removed": name}):
        show.say(f"source [bold]{name}[/bold] is removed; its events stay")


def named_first(record: dict[str, Any]) -> list[str]:
    """Give the fields of a record in its order, but its name before the rest."""
    return ["name", *(field for field in record if field != "name")]


def option_of(option: str, text: str) -> tuple[str, Any]:
    """Read `name=value`; a value that is JSON is taken as such, anything else is text."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ConfigError(f"`{option}` has {text!r}; write it as name=value")
    try:
        return name, orjson.loads(value)
    except orjson.JSONDecodeError:
        return name, value
