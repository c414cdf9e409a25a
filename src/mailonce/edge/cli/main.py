"""The command line: commands by noun; errors are one sentence."""

import sys
from typing import Annotated

import typer
from rich.console import Console

from mailonce import __version__
from mailonce.edge.cli import attention, events, keys, sources, suppressions
from mailonce.edge.cli.command import ConfigFile, DataDir, api_command
from mailonce.edge.cli.exits import exit_code_of
from mailonce.errors import MailonceError
from mailonce.settings import read_settings

app = typer.Typer(
    name="mailonce",
    help="One email event, one outcome.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


@app.command()
def serve(
    config: ConfigFile = None,
    data_dir: DataDir = None,
    host: Annotated[str | None, typer.Option(help="address to listen on")] = None,
    port: Annotated[int | None, typer.Option(help="port to listen on")] = None,
) -> None:
    """Run the service until it is told to stop."""
    from mailonce.edge.cli.serve import serve as run_server  # noqa: PLC0415 - only serve pays

    run_server(read_settings(config, data_dir=data_dir, host=host, port=port))


for noun in (sources.app, keys.keys, keys.workspaces, events.app):
    app.add_typer(noun)
api_command(app)(events.message)
for noun in (suppressions.app, attention.dead):
    app.add_typer(noun)
for question in (attention.stats, attention.conflicts, attention.refusals):
    api_command(app)(question)


@app.command()
def version() -> None:
    """Show the version."""
    Console().print(__version__)


def run() -> None:
    """Run a command; an error of ours is one sentence on standard error."""
    try:
        app()
    except MailonceError as error:
        Console(stderr=True, highlight=False, soft_wrap=True).print(
            f"mailonce: {error}", markup=False
        )
        sys.exit(exit_code_of(error))
