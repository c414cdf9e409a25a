"""The command line: commands by noun; errors are one sentence."""

import asyncio
import sys
from functools import partial
from typing import Annotated

import typer
from rich.console import Console

from mailonce import __version__
from mailonce.edge.cli import (
    arrivals,
    attention,
    audit,
    certify,
    dead_letters,
    deliveries,
    domains,
    events,
    expectations,
    inbox_messages,
    inboxes,
    keys,
    providers,
    recipients,
    routes,
    senders,
    sends,
    sources,
    suppressions,
)
from mailonce.edge.cli.client import ServerAddress
from mailonce.edge.cli.command import (
    AsJson,
    ConfigFile,
    DataDir,
    Key,
    OptionsAnywhere,
    PlainCommand,
    Url,
    api_command,
)
from mailonce.edge.cli.command_hints import in_commands
from mailonce.edge.cli.doctor import doctor as run_doctor
from mailonce.edge.cli.doctor import prune, reencrypt, reload
from mailonce.edge.cli.early_hangup import EarlyHangup
from mailonce.edge.cli.exits import CHECK_FAILED, exit_code_of
from mailonce.edge.cli.listen import listen
from mailonce.edge.cli.mcp_command import mcp
from mailonce.edge.cli.show import Show
from mailonce.edge.cli.simulate import simulate
from mailonce.edge.cli.tail import tail
from mailonce.edge.cli.undelivered import undelivered
from mailonce.errors import MailonceError
from mailonce.settings import LogLevel, Role, read_settings

app = typer.Typer(
    name="mailonce",
    help="One email event, one outcome.",
    epilog=(
        "--url, --key, --config, --data-dir, --workspace and --json may stand before or after a "
        "command. Exit codes: 0 done, 1 refused or a check failed, 2 a setting or an argument is "
        "wrong, 3 the server or the database does not answer."
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    cls=OptionsAnywhere,
)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - Typer calls it so
    if wanted:
        typer.echo(f"mailonce {__version__}")
        raise typer.Exit


@app.callback()
def root(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", help="show the version", is_eager=True, callback=_print_version),
    ] = False,
) -> None:
    del version


@app.command("help", hidden=True)
def help_(ctx: typer.Context) -> None:
    typer.echo(ctx.find_root().get_help())


@app.command(cls=PlainCommand)
def serve(
    config: ConfigFile = None,
    data_dir: DataDir = None,
    host: Annotated[str | None, typer.Option(help="address to listen on")] = None,
    port: Annotated[int | None, typer.Option(help="port to listen on")] = None,
    smtp_port: Annotated[int | None, typer.Option(help="port that accepts mail over SMTP")] = None,
    handlers: Annotated[
        str | None, typer.Option("--app", help="module:name of your own Handlers")
    ] = None,
    role: Annotated[
        list[Role] | None, typer.Option(help="what this process does; may be repeated")
    ] = None,
    *,
    dev: Annotated[
        bool, typer.Option("--dev", help="keep mail that is sent in inboxes here; none leaves")
    ] = False,
    log_level: Annotated[
        LogLevel | None, typer.Option(help="log this and what is more important")
    ] = None,
    lost_master_key: Annotated[
        bool,
        typer.Option("--lost-master-key", help="start though no stored secret can be read"),
    ] = False,
) -> None:
    """Start the server."""
    hangup = EarlyHangup()
    given = {"data_dir": data_dir, "host": host, "port": port, "app": handlers, "dev": dev or None}
    given["log_level"] = log_level
    # First, so that a wrong setting is reported at once.
    smtp = None if smtp_port is None else {"port": smtp_port}
    read = partial(read_settings, config, roles=role or None, smtp=smtp, **given)
    settings = read()

    from mailonce.edge.cli.serve import serve as run_server  # noqa: PLC0415 - only serve pays

    run_server(settings, read=read, hangup=hangup, is_key_lost=lost_master_key)


@app.command(cls=PlainCommand)
def demo(
    *,
    events: Annotated[int, typer.Option(min=10, max=100_000, help="distinct events")] = 2000,
    seed: Annotated[int, typer.Option(help="the same seed makes the same storm")] = 1,
    url: Url = None,
    key: Key = None,
    json: AsJson = False,
) -> None:
    """Fire a storm of duplicated, shuffled webhooks; show that each took effect once."""
    from mailonce.edge.cli.demo import demo as run_demo  # noqa: PLC0415 - only demo pays

    once = asyncio.run(run_demo(Show(json=json), url=url, key=key, events=events, seed=seed))
    raise typer.Exit(0 if once else CHECK_FAILED)


app.command(cls=PlainCommand)(providers.providers)
app.command(cls=PlainCommand)(simulate)
app.command(cls=PlainCommand)(listen)
app.command(cls=PlainCommand)(mcp)


@app.command(cls=PlainCommand)
def verify(
    *,
    config: ConfigFile = None,
    data_dir: DataDir = None,
    seed: Annotated[int, typer.Option(help="the same seed makes the same order")] = 1,
    json: AsJson = False,
) -> None:
    """Replay the log shuffled and duplicated into a scratch database, and compare."""
    from mailonce.edge.cli.verify import verify as run_verify  # noqa: PLC0415 - only verify pays

    target = ServerAddress(config=config, data_dir=data_dir)
    same = asyncio.run(run_verify(Show(json=json), target, seed=seed))
    raise typer.Exit(0 if same else CHECK_FAILED)


@app.command(cls=PlainCommand)
def doctor(
    *,
    config: ConfigFile = None,
    data_dir: DataDir = None,
    url: Url = None,
    key: Key = None,
    dns: Annotated[bool, typer.Option("--dns", help="ask for MX records, too")] = False,
    json: AsJson = False,
) -> None:
    """Check settings, database, clock, window and secrets; say what to do."""
    target = ServerAddress(config=config, data_dir=data_dir, url=url, key=key)
    well = asyncio.run(run_doctor(Show(json=json), target, dns=dns))
    raise typer.Exit(0 if well else CHECK_FAILED)


api_command(routes.app, "test")(certify.test)
api_command(inboxes.app, "messages")(inbox_messages.messages)
api_command(inboxes.app, "save")(inbox_messages.save)
api_command(inboxes.app, "delete-message")(inbox_messages.delete_message)
for noun in (sources.app, routes.app, keys.keys, keys.workspaces, events.app, arrivals.app):
    app.add_typer(noun)
for look in (events.message, recipients.recipient, tail):
    api_command(app)(look)
api_command(app)(inboxes.mail)
api_command(app)(sends.send)
for noun in (
    inboxes.app, domains.app, expectations.app, senders.app, sends.app, sends.templates,
    suppressions.app, deliveries.app, dead_letters.app,
):  # fmt: skip
    app.add_typer(noun)
for ask_again in (undelivered, deliveries.redeliver, deliveries.reprocess):
    api_command(app)(ask_again)
for question in (
    audit.audit,
    attention.stats,
    attention.conflicts,
    attention.refusals,
    prune,
    reencrypt,
):
    api_command(app)(question)
api_command(app, needs_server=True)(reload)


@app.command(cls=PlainCommand)
def version() -> None:
    """Show the version."""
    Console().print(__version__)


def run() -> None:
    """Run a command; an error of ours is one sentence on standard error."""
    try:
        app()
    except MailonceError as error:
        Console(stderr=True, highlight=False, soft_wrap=True).print(
            f"mailonce: {in_commands(str(error))}", markup=False
        )
        sys.exit(exit_code_of(error))
