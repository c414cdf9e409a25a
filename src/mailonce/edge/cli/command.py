"""A command that talks to the API: the options that all of them have, and how one is run."""

import asyncio
import functools
import inspect
import sys
from collections.abc import Awaitable, Callable, Mapping
from getpass import getpass
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

from mailonce.core.empty_secret import is_empty
from mailonce.edge.cli.client import ServerAddress, open_client
from mailonce.edge.cli.plain_help import simplify
from mailonce.edge.cli.show import Show, moment
from mailonce.errors import ConfigError

ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="settings file; default: ./mailonce.toml")
]
DataDir = Annotated[
    Path | None, typer.Option("--data-dir", help="where the server keeps its files")
]
Url = Annotated[
    str | None, typer.Option("--url", envvar="MAILONCE_URL", help="URL of a remote server")
]
Key = Annotated[
    str | None,
    typer.Option(
        "--key",
        envvar=["MAILONCE_KEY", "MAILONCE_ADMIN_KEY"],
        help="API key for --url",
    ),
]
WorkspaceName = Annotated[
    str | None, typer.Option("--workspace", help="workspace to act in; default: the key's own")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="do not ask")]
AsJson = Annotated[bool, typer.Option("--json", help="output JSON")]

_COMMON = {
    "config": (ConfigFile, None),
    "data_dir": (DataDir, None),
    "url": (Url, None),
    "key": (Key, None),
    "workspace": (WorkspaceName, None),
    "json": (AsJson, False),
}
_GIVEN = ("client", "show")
_WITH_VALUE = frozenset({"--config", "--data-dir", "--url", "--key", "--workspace"})
# Words of other tools for the same.
_SAME = (
    {"add", "create", "new"},
    {"remove", "delete", "rm"},
    {"list", "ls"},
    {"show", "get"},
    {"set", "update"},
)
# What people write for an option or an argument; the first that a command has is meant.
MEANT: Mapping[str, tuple[str, ...]] = {
    "--address": ("--recipient", "--to"),
    "--after": ("--since",),
    "--before": ("--until",),
    "--email": ("--recipient", "--address", "--to"),
    "--event": ("--type",),
    "--from": ("--sender", "--since"),
    "--id": ("--message-id", "--message"),
    "--inbox": ("--to",),
    "--kind": ("--type",),
    "--name": ("--local",),
    "--role": ("--scope",),
    "--smtp": ("--smtp-port",),
    "--status": ("--state",),
    "--to": ("--recipient",),
    "--type": ("--provider", "--kind"),
    "-n": ("--limit",),
    "-p": ("--port",),
}
# What is removed elsewhere is lifted here; the other way, `route lift` would remove a route.
_LIFT = frozenset({"remove", "delete", "rm"})

# How other servers are set up and started.
_STARTS = frozenset({"init", "install", "migrate", "run", "server", "setup", "start", "up"})

Work = Callable[..., Awaitable[None]]


class PlainCommand(TyperCommand):
    """A command whose help is written as other tools write theirs."""

    def get_params(self, ctx: Any) -> list[Any]:
        return simplify(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Say how an argument is written to whom writes it as an option.

        Raises: BadParameter.
        """
        arguments = {
            f"--{name}".lower().replace("_", "-"): one.display_name_raw
            for one in self.get_params(ctx)
            if isinstance(one, TyperArgument) and one.name is not None
            for name in (one.name, one.display_name_raw)
        }
        options = {name for one in self.get_params(ctx) for name in one.opts}
        for word in args[: args.index("--") if "--" in args else None]:
            name = word.partition("=")[0]
            if name in options:
                continue
            known = (one for one in (name, *MEANT.get(name, ())) if one in {*arguments, *options})
            meant = next(known, None)
            if meant in options:
                raise typer.BadParameter(f"{name} is not an option here: write {meant}")
            if meant is not None:
                raise typer.BadParameter(
                    f"{name} is not an option: write the {arguments[meant]} by itself, as in "
                    f"`{ctx.command_path} {arguments[meant]}`"
                )
        return super().parse_args(ctx, args)


def api_command(
    app: typer.Typer,
    name: str | None = None,
    *,
    creates: bool = False,
    needs_server: bool = False,
) -> Callable[[Work], Work]:
    """Register a coroutine as a command.

    It is given a `client` and a `show` as its first two arguments; the common options are added
    behind its own. `creates`: it may be the first command of a new installation. Any other one that
    finds no database was run in the wrong folder, and its answer would be wrong. `needs_server`: it
    means nothing without one.
    """

    def register(work: Work) -> Work:
        @functools.wraps(work)
        def command(**given: Any) -> None:
            common = {option: given.pop(option) for option in _COMMON}
            _check_order(given.get("since"), given.get("until"))
            show = Show(json=common.pop("json"))
            target = ServerAddress(**common, creates=creates, needs_server=needs_server)
            asyncio.run(_run(work, target, show, given))

        own = inspect.signature(work).parameters.values()
        kept = [one for one in own if one.name not in _GIVEN]
        added = [
            inspect.Parameter(
                option, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=as_
            )
            for option, (as_, default) in _COMMON.items()
        ]
        parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in kept] + added
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        app.command(name, cls=PlainCommand)(command)
        return work

    return register


def with_options(options: Mapping[str, Any]) -> Callable[[Work], Work]:
    """Give a command options that it shares with others; it takes them as `**options`."""

    def add(work: Work) -> Work:
        own = inspect.signature(work)
        kept = [one for one in own.parameters.values() if one.kind is not one.VAR_KEYWORD]
        shared = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=as_)
            for name, as_ in options.items()
        ]
        work.__signature__ = own.replace(parameters=[*kept, *shared])  # type: ignore[attr-defined]
        return work

    return add


def group(name: str, help_: str) -> typer.Typer:
    """Make the group of commands about one noun."""
    return typer.Typer(name=name, help=help_, no_args_is_help=True, cls=OptionsAnywhere)


class OptionsAnywhere(TyperGroup):
    """`mailonce --url URL source list` means `mailonce source list --url URL`.

    And `inbox add` means `inbox create`, as `source create` means `source add`.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        return simplify(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        words = [cmd_name, *(word for group in _SAME if cmd_name in group for word in group)]
        words += ["lift"] if cmd_name in _LIFT else []
        commands = (super(OptionsAnywhere, self).get_command(ctx, word) for word in words)
        return next((command for command in commands if command is not None), None)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        """Name the one command that makes all and starts it, where another word is tried.

        Raises: BadParameter.
        """
        known = self.list_commands(ctx)
        if args and args[0] in _STARTS and args[0] not in known and "serve" in known:
            raise typer.BadParameter(
                f"there is no command {args[0]!r}: `{ctx.command_path} serve` makes its folder, "
                "database and keys where they are not there yet, and starts the server"
            )
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        moved: list[str] = []
        rest = list(args)
        while rest:
            name, equals, _ = rest[0].partition("=")
            if name == "--json" or (name in _WITH_VALUE and equals):
                moved.append(rest.pop(0))
            elif name in _WITH_VALUE and len(rest) > 1:
                moved += [rest.pop(0), rest.pop(0)]
            else:
                break
        if rest and not rest[0].startswith("-"):
            # Before the first `--`, behind which nothing is an option.
            end = rest.index("--") if "--" in rest else len(rest)
            return super().parse_args(ctx, [*rest[:end], *moved, *rest[end:]])
        return super().parse_args(ctx, list(args))


def confirm(question: str, *, yes: bool) -> None:
    """Ask on a terminal before something cannot be undone; elsewhere the command is enough."""
    if not yes and is_interactive():
        typer.confirm(question, abort=True)


def is_interactive() -> bool:
    """Say whether somebody sits at a terminal who can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def read_secret(option: str, text: str) -> str:
    """Read a secret that is not to stand in the shell's history: `@FILE`, or `-`.

    Raises: ConfigError where the file cannot be read, or nothing was given.
    """
    secret, where = text, "the value"
    if text == "-":
        where = "what was typed" if sys.stdin.isatty() else "standard input"
        secret = getpass(f"{option}: ") if sys.stdin.isatty() else sys.stdin.read().strip()
    elif text.startswith("@"):
        secret, where = _read_text(option, text), text[1:]
    if is_empty(secret):
        raise ConfigError(f"`{option}`: {where} is empty; give the secret that the provider has")
    return secret


def _read_text(option: str, text: str) -> str:
    try:
        return Path(text[1:]).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise ConfigError(f"`{option}`: {text[1:]} cannot be read ({why})") from error


def _check_order(since: str | None, until: str | None) -> None:
    """Refuse a time range that ends before it begins; both are written in one form.

    Raises: ConfigError.
    """
    if since is not None and until is not None and since > until:
        raise ConfigError(
            f"--since {moment(since)} is later than --until {moment(until)}: "
            "nothing is between them"
        )


async def _run(work: Work, target: ServerAddress, show: Show, given: dict[str, Any]) -> None:
    async with open_client(target) as client:
        await work(client, show, **given)
