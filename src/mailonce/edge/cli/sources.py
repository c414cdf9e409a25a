"""`mailonce source`: the accounts that may send us webhooks."""

from typing import Annotated, Any

import orjson
import typer

from mailonce.core.arrivals.source import Poison
from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.command import Yes, api_command, confirm, group, read_secret
from mailonce.edge.cli.file_records import warn_of_file
from mailonce.edge.cli.show import Column, Show
from mailonce.errors import ConfigError

app = group("source", "Add, list, show, change, switch and remove sources.")

COLUMNS = (
    Column("name", "name"),
    Column("provider", "provider"),
    Column("on", "on"),
    Column("account", "account"),
    Column("point the webhook at", "url"),
    Column("id", "id", whole=True),
)
NOT_SHOWN = {"poison_attempts", "silence_s", "readable"}
EMPTY = (
    "no sources yet; add one: [bold]mailonce source add main --provider sendgrid "
    "--public-key …[/bold]"
)

# What stands in a URL for the source's token, which the server does not give away.
URL_HINT = (
    "TOKEN in a URL stands for the source's token (which may come as `Authorization: Bearer TOKEN` "
    "as well). It is kept encrypted and never shown: take it from where it was given, such as "
    "mailonce.toml or the provider's page, or give a new one: `mailonce source set NAME --token -`"
)

SourceName = Annotated[str, typer.Argument(metavar="NAME", help="its name, or its id")]
Several = list[str] | None
# Each may be written as @FILE, or - to be asked for: an argument stays in the shell's history.
Secret = Annotated[
    Several, typer.Option(help="HMAC secret, @FILE or - to be asked; may be repeated")
]
PublicKey = Annotated[
    Several, typer.Option(help="public key or certificate, or @FILE; may be repeated")
]
Basic = Annotated[Several, typer.Option(help="user:password, @FILE or - to be asked")]
Token = Annotated[Several, typer.Option(help="secret at the end of the URL, @FILE or -")]
Header = Annotated[Several, typer.Option(help="'Name: value' to require, @FILE or -")]
AllowIp = Annotated[Several, typer.Option(help="address or network")]
TopicArn = Annotated[Several, typer.Option(help="allowed SNS topic; may be repeated")]
Account = Annotated[str | None, typer.Option(help="scope of keys; default: NAME")]
Option = Annotated[
    Several, typer.Option(metavar="K=V", help="provider-specific option; see docs/providers.md")
]


@api_command(app, "add", creates=True)
async def add(
    client: ApiSession,
    show: Show,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="POST /in/NAME; in another workspace than the default one /in/ID"
        ),
    ],
    *,
    provider: Annotated[str, typer.Option(help="the mail service, e.g. sendgrid")],
    secret: Secret = None,
    public_key: PublicKey = None,
    basic: Basic = None,
    token: Token = None,
    header: Header = None,
    allow_ip: AllowIp = None,
    topic_arn: TopicArn = None,
    account: Account = None,
    poison: Annotated[
        Poison, typer.Option(help="what becomes of verified, unreadable arrivals")
    ] = Poison.DEAD_LETTER,
    option: Option = None,
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
        **_proofs(secret, public_key, basic, token, header),
        "allow_ips": allow_ip or [],
        "topic_arns": topic_arn or [],
        "unproven": unproven,
        "unsigned": unsigned,
        "poison": poison.value,
        "options": dict(option_of("--option", one) for one in option or []),
    }
    made = await client.post("sources", body=body)
    if not show.answer(made):
        url = with_token(made)["url"]
        show.say(f"source [bold]{name}[/bold] is ready; point the webhook at {url}")
        if made["tokens"]:
            show.say("write the token that you gave in place of TOKEN")
        if made["url"].startswith("/"):
            show.say("set `public_url` to see the whole URL, as in https://hooks.example.com/in/…")


@api_command(app, "list")
async def list_(client: ApiSession, show: Show) -> None:
    """List the sources."""
    page = await client.get("sources")
    if show.answer(page):
        return
    sources = [with_token(one) for one in page["data"]]
    show.page({**page, "data": sources}, COLUMNS, empty=EMPTY)
    if any(one["tokens"] for one in sources):
        show.say(f"[dim]{URL_HINT}[/dim]")


@api_command(app, "show")
async def show_(client: ApiSession, show: Show, name: SourceName) -> None:
    """Show a source; of its secrets, how many there are."""
    source = await client.get("sources", name)
    if show.answer(source):
        return
    fields = [name for name in named_first(source) if name not in NOT_SHOWN]
    show.fields(with_token(source), fields)
    if source["tokens"]:
        show.say(f"[dim]{URL_HINT.replace('NAME', source['name'])}[/dim]")


@api_command(app, "set")
async def set_(
    client: ApiSession,
    show: Show,
    name: SourceName,
    *,
    secret: Secret = None,
    public_key: PublicKey = None,
    basic: Basic = None,
    token: Token = None,
    header: Header = None,
    allow_ip: AllowIp = None,
    topic_arn: TopicArn = None,
    account: Account = None,
    poison: Annotated[
        Poison | None, typer.Option(help="what becomes of verified, unreadable arrivals")
    ] = None,
    option: Option = None,
) -> None:
    """Change some settings of a source; to rotate a secret, give the new one and the old one."""
    proofs = _proofs(secret, public_key, basic, token, header)
    given = {"allow_ips": allow_ip, "topic_arns": topic_arn, "account": account, "poison": poison}
    body: dict[str, Any] = {field: value for field, value in {**proofs, **given}.items() if value}
    if option:
        known = (await client.get("sources", name))["options"]
        body["options"] = {**known, **dict(option_of("--option", one) for one in option)}
    if not body:
        raise ConfigError("nothing to change; give at least one option, see --help")
    changed = await client.patch("sources", name, body=body)
    if not show.answer(changed):
        # A server of an earlier version does not say so.
        is_changed = changed.get("changed", True)
        words = "is changed" if is_changed else "is unchanged, since it has the same"
        show.say(f"source [bold]{changed['name']}[/bold] {words}: {', '.join(body)}")
        warn_of_file(show, "source", changed)


@api_command(app, "on")
async def on(client: ApiSession, show: Show, name: SourceName) -> None:
    """Switch a source on; its webhooks are accepted again."""
    if not show.answer(await client.post("sources", name, "on")):
        show.say(f"source [bold]{name}[/bold] is on")


@api_command(app, "off")
async def off(
    client: ApiSession,
    show: Show,
    name: SourceName,
    *,
    reason: Annotated[str, typer.Option(help="why; others will read it")] = "switched off",
) -> None:
    """Switch a source off; its provider is asked to send again later."""
    if not show.answer(await client.post("sources", name, "off", body={"reason": reason})):
        show.say(f"source [bold]{name}[/bold] is off; its provider is asked to send again later")


@api_command(app, "remove")
async def remove(client: ApiSession, show: Show, name: SourceName, *, yes: Yes = False) -> None:
    """Remove a source; its events stay."""
    source = await client.get("sources", name)
    letters = await client.get("dead-letters", source=source["id"], limit=1)
    waiting = " It has open dead letters." if letters["data"] else ""
    confirm(f"Remove source {name}? Its webhooks will be answered with 404.{waiting}", yes=yes)
    await client.delete("sources", name)
    if not show.answer({"removed": name}):
        show.say(f"source [bold]{name}[/bold] is removed; its events stay")
        if letters["data"]:
            show.say(
                "[yellow]it has open dead letters: add it again to retry them, with "
                "`mailonce dead retry ID --as NAME`, or dismiss them[/yellow]"
            )
        warn_of_file(show, "source", source)


def with_token(source: dict[str, Any]) -> dict[str, Any]:
    """Give a source with its URL as a provider needs it, with a place for the token."""
    return {**source, "url": f"{source['url']}/TOKEN"} if source["tokens"] else source


def _proofs(
    secret: Several, public_key: Several, basic: Several, token: Several, header: Several
) -> dict[str, list[str]]:
    options = ("secret", "public_key", "basic", "token", "header")
    given = zip(options, (secret, public_key, basic, token, header), strict=True)
    return {
        name: [read_secret(f"--{name.replace('_', '-')}", one) for one in values or []]
        for name, values in given
    }


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
