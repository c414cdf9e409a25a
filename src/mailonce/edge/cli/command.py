"""A command that talks to the API: the options that all of them have, and how one is run."""

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from mailonce.edge.cli.client import ServerAddress, open_client
from mailonce.edge.cli.show import Show

ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="settings file; default: ./mailonce.toml")
]
DataDir = Annotated[
    Path | None, typer.Option("--data-dir", help="where the server keeps its files")
]
Url = Annotated[str | None, typer.Option("--url", envvar="MAILONCE_URL", help="a server elsewhere")]
Key = Annotated[
    str | None,
    typer.Option(
        "--key",
        envvar=["MAILONCE_KEY", "MAILONCE_ADMIN_KEY"],
        show_envvar=False,
        help="API key for --url",
    ),
]
WorkspaceName = Annotated[
    str | None, typer.Option("--workspace", help="workspace to act in; default: the key's own")
]
AsJson = Annotated[bool, typer.Option("--json", help="print the API's JSON")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=1000, help="how many to show")]

_COMMON = {
    "config": (ConfigFile, None),
    "data_dir": (DataDir, None),
    "url": (Url, None),
    "key": (Key, None),
    "workspace": (WorkspaceName, None),
    "json": (AsJson, False),
}
_GIVEN = ("client", "show")

Work = Callable[..., Awaitable[None]]


def api_command(
    app: typer.Typer, name: str | None = None, *, creates: bool = False
) -> Callable[[Work], Work]:
    """Register a coroutine as a command.

    It is given a `client` and a `show` as its first two arguments; the common options are added
    behind its own. `creates`: it may be the first command of a new installation. Any other one that
    finds no database was run in the wrong folder, and its answer would be wrong.
    """

    def register(work: Work) -> Work:
        @functools.wraps(work)
        def command(**given: Any) -> None:
            common = {option: given.pop(option) for option in _COMMON}
            show = Show(json=common.pop("json"))
            asyncio.run(_run(work, ServerAddress(**common, creates=creates), show, given))

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
        app.command(name)(command)
        return work

    return register


def group(name: str, help_: str) -> typer.Typer:
    """Make the group of commands about one noun."""
    return typer.Typer(name=name, help=help_, no_args_is_help=True)


async def _run(work: Work, target: ServerAddress, show: Show, given: dict[str, Any]) -> None:
    async with open_client(target) as client:
        await work(client, show, **given)
