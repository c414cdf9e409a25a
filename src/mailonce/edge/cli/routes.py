"""`mailonce route`: where events go."""

from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from mailonce.core.deliveries.route import RouteKind
from mailonce.core.deliveries.route_secret import OVERLAP_S_MAX, Signing
from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.command import Yes, api_command, confirm, group, read_secret
from mailonce.edge.cli.file_records import warn_of_file
from mailonce.edge.cli.removed_routes import giving_up_words
from mailonce.edge.cli.show import Column, Show
from mailonce.edge.cli.sources import Several, named_first, option_of
from mailonce.errors import ConfigError

app = group("route", "Add, list, show, change, switch, rotate, test and remove routes.")

COLUMNS = (
    Column("name", "name"),
    Column("kind", "kind"),
    Column("on", "on"),
    Column("off because", "off_reason", wraps=True),
    Column("down", "endpoint_down"),
    Column("events", "events"),
    Column("url", "url"),
    Column("id", "id", whole=True),
)
EMPTY = "no routes yet; add one: [bold]mailonce route add crm https://…[/bold]"

InboxFilter = Annotated[
    Several, typer.Option("--inbox", help="only mail to this inbox, by address or id")
]
SenderFilter = Annotated[
    Several, typer.Option("--sender", help="only mail from this address or @domain")
]
SubjectFilter = Annotated[
    Several, typer.Option("--subject-contains", help="only mail with one of these in its subject")
]
FileFilter = Annotated[
    bool | None,
    typer.Option("--attachments/--no-attachments", help="only mail with some, or without any"),
]
InlineBytesMax = Annotated[
    int | None, typer.Option(min=0, help="attachments up to this size in all stand in the body")
]
RouteName = Annotated[str, typer.Argument(metavar="NAME", help="its name, or its id")]


@api_command(app, "add", creates=True)
async def add(
    client: ApiSession,
    show: Show,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    endpoint: Annotated[str, typer.Argument(metavar="URL", help="where to post events")] = "",
    *,
    kind: Annotated[RouteKind, typer.Option(help="how events are handed over")] = RouteKind.WEBHOOK,
    event: Annotated[Several, typer.Option(help="type of event; may be repeated")] = None,
    source: Annotated[Several, typer.Option(help="only of this source; may be repeated")] = None,
    domain: Annotated[Several, typer.Option(help="only recipients at this domain")] = None,
    tag: Annotated[Several, typer.Option(help="only with one of these tags")] = None,
    metadata: Annotated[
        Several, typer.Option(metavar="K=V", help="only where the metadata says so")
    ] = None,
    inbox: InboxFilter = None,
    sender: SenderFilter = None,
    subject_contains: SubjectFilter = None,
    has_attachments: FileFilter = None,
    inline_bytes_max: InlineBytesMax = None,
    expression: Annotated[str, typer.Option(help="JMESPath over the event")] = "",
    mapping: Annotated[
        str | None, typer.Option(help="body to send instead: JSON, or @file.json")
    ] = None,
    secret: Annotated[
        Several, typer.Option(help="whsec_… or whsk_…, @FILE or -; default: made")
    ] = None,
    signing: Annotated[Signing, typer.Option(help="the kind of secret to make")] = Signing.HMAC,
    header: Annotated[Several, typer.Option(help="'Name: value' of each request")] = None,
) -> None:
    """Add a route; its secret is shown once."""
    if kind is RouteKind.WEBHOOK and not endpoint:
        raise ConfigError(
            f"where are events posted to? `mailonce route add {name} https://…`; "
            "--url is the address of a mailonce server"
        )
    body: dict[str, Any] = {
        "name": name,
        "url": endpoint,
        "kind": kind.value,
        "events": event or ["*"],
        "sources": source or [],
        "domains": domain or [],
        "tags": tag or [],
        "metadata": dict(option_of("--metadata", one) for one in metadata or []),
        "inboxes": inbox or [],
        "senders": sender or [],
        "subject_contains": subject_contains or [],
        "has_attachments": has_attachments,
        "inline_bytes_max": inline_bytes_max or 0,
        "expression": expression,
        "mapping": _mapping(mapping),
        "secret": [read_secret("--secret", one) for one in secret or []],
        "signing": signing.value,
        "headers": dict(_header(one) for one in header or []),
    }
    made = await client.post("routes", body=body)
    if not show.answer(made):
        show.say(f"route [bold]{name}[/bold] is ready ({made['id']})")
        _print_secret(show, made)


@api_command(app, "list")
async def list_(client: ApiSession, show: Show) -> None:
    """List the routes."""
    show.page(await client.get("routes"), COLUMNS, empty=EMPTY)


@api_command(app, "show")
async def show_(client: ApiSession, show: Show, name: RouteName) -> None:
    """Show a route; of its secrets, their kind."""
    route = await client.get("routes", name)
    show.fields(route, named_first(route))


@api_command(app, "set")
async def set_(
    client: ApiSession,
    show: Show,
    name: RouteName,
    *,
    endpoint: Annotated[str | None, typer.Option("--endpoint", help="where to post events")] = None,
    event: Annotated[Several, typer.Option(help="type of event; may be repeated")] = None,
    source: Annotated[Several, typer.Option(help="only of this source; may be repeated")] = None,
    domain: Annotated[Several, typer.Option(help="only recipients at this domain")] = None,
    tag: Annotated[Several, typer.Option(help="only with one of these tags")] = None,
    metadata: Annotated[
        Several, typer.Option(metavar="K=V", help="only where the metadata says so")
    ] = None,
    inbox: InboxFilter = None,
    sender: SenderFilter = None,
    subject_contains: SubjectFilter = None,
    has_attachments: FileFilter = None,
    inline_bytes_max: InlineBytesMax = None,
    expression: Annotated[str | None, typer.Option(help="JMESPath over the event")] = None,
    mapping: Annotated[
        str | None, typer.Option(help="body to send instead: JSON, or @file.json")
    ] = None,
    header: Annotated[Several, typer.Option(help="'Name: value' of each request")] = None,
) -> None:
    """Change some settings of a route; pending deliveries keep their bodies."""
    given: dict[str, Any] = {
        "url": endpoint,
        "events": event,
        "sources": source,
        "domains": domain,
        "tags": tag,
        "metadata": dict(option_of("--metadata", one) for one in metadata) if metadata else None,
        "inboxes": inbox,
        "senders": sender,
        "subject_contains": subject_contains,
        "has_attachments": has_attachments,
        "inline_bytes_max": inline_bytes_max,
        "expression": expression,
        "mapping": _mapping(mapping),
        "headers": dict(_header(one) for one in header) if header else None,
    }
    body = {field: value for field, value in given.items() if value is not None}
    if not body:
        raise ConfigError(
            "nothing to change; give at least one option, see --help (a new URL of the endpoint is "
            "--endpoint; --url is that of the mailonce server)"
        )
    changed = await client.patch("routes", name, body=body)
    if not show.answer(changed):
        # A server of an earlier version does not say so.
        is_changed = changed.get("changed", True)
        words = "is changed" if is_changed else "is unchanged, since it has the same"
        show.say(f"route [bold]{changed['name']}[/bold] {words}: {', '.join(body)}")
        warn_of_file(show, "route", changed)


@api_command(app, "on")
async def on(client: ApiSession, show: Show, name: RouteName) -> None:
    """Switch a route on; deliveries that waited meanwhile are sent."""
    if not show.answer(await client.post("routes", name, "on")):
        show.say(f"route [bold]{name}[/bold] is on")


@api_command(app, "off")
async def off(
    client: ApiSession,
    show: Show,
    name: RouteName,
    *,
    reason: Annotated[str, typer.Option(help="why; others will read it")] = "switched off",
) -> None:
    """Switch a route off; its deliveries wait."""
    if not show.answer(await client.post("routes", name, "off", body={"reason": reason})):
        show.say(f"route [bold]{name}[/bold] is off; its deliveries wait, for one window at most")


@api_command(app, "rotate")
async def rotate(
    client: ApiSession,
    show: Show,
    name: RouteName,
    *,
    overlap_s: Annotated[
        int, typer.Option(min=0, max=OVERLAP_S_MAX, help="how long the old one signs, too")
    ] = 86_400,
    signing: Annotated[Signing, typer.Option(help="the kind of the new secret")] = Signing.HMAC,
) -> None:
    """Give a route a new secret, shown once."""
    body = {"overlap_s": overlap_s, "signing": signing.value}
    made = await client.post("routes", name, "rotate", body=body)
    if not show.answer(made):
        _print_secret(show, made)


@api_command(app, "remove")
async def remove(client: ApiSession, show: Show, name: RouteName, *, yes: Yes = False) -> None:
    """Remove a route; its pending deliveries become dead letters."""
    confirm(f"Remove route {name}? Its pending deliveries become dead letters.", yes=yes)
    route = await client.get("routes", name)
    await client.delete("routes", name)
    if not show.answer({"removed": name}):
        show.say(f"route [bold]{name}[/bold] is removed; its pending deliveries are dead letters")
        show.plain(await giving_up_words(client, route["id"]))
        warn_of_file(show, "route", route)


def _print_secret(show: Show, made: Any) -> None:
    if made.get("secret"):
        show.say(f"its secret, shown this once: [bold]{made['secret']}[/bold]")
    public = made["secrets"][0]["public_key"] if made["secrets"] else None
    if public is not None:
        show.say(f"verify with its public key: [bold]{public}[/bold]")


def _mapping(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return orjson.loads(Path(text[1:]).read_bytes() if text.startswith("@") else text)
    except OSError as error:
        raise ConfigError(f"`--mapping`: {text[1:]} cannot be read ({error.strerror})") from error
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"`--mapping` is not JSON ({error}); correct it") from error


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        raise ConfigError(f"`--header` has {text!r}; write it as 'Name: value'")
    return name.strip(), value.strip()
