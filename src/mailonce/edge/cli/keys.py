"""`mailonce key` and `mailonce workspace`: who may call the API, and for whom."""

import secrets
import time
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from mailonce.core.access import KEY_PREFIX, Scope
from mailonce.core.expectations.child_key import LIFE_S_MAX, USES_MAX, make_child_key
from mailonce.core.id_prefix import DIGITS_MIN
from mailonce.core.ids import private
from mailonce.core.moment import moment
from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.command import (
    AsJson,
    PlainCommand,
    Yes,
    api_command,
    confirm,
    group,
    read_secret,
)
from mailonce.edge.cli.show import Column, Show
from mailonce.errors import ConfigError, MissingError, RefusedError

keys = group("key", "Add, list and revoke API keys.")
workspaces = group("workspace", "Add and list workspaces.")

KEY_COLUMNS = (
    Column("name", "name", whole=True),
    Column("scope", "scope"),
    Column("made", "created_at"),
    Column("revoked", "revoked_at"),
    Column("id", "id", whole=True),
)
EXPECTATION_PREFIX = "exp"
WORKSPACE_COLUMNS = (Column("name", "name"), Column("id", "id", whole=True))


@api_command(keys, "add", creates=True)
async def add_key(
    client: ApiSession,
    show: Show,
    *,
    scope: Annotated[Scope, typer.Option(help="what it may be used for")] = Scope.OPERATOR,
    name: Annotated[str, typer.Option(help="label")] = "",
) -> None:
    """Make a key; it is shown this once."""
    made = await client.post("keys", body={"scope": scope.value, "name": name})
    if not show.answer(made):
        show.say(f"{made['scope']} key, shown this once: [bold]{made['key']}[/bold]")
        show.say(f"its id, by which it is revoked: {made['id']}")
        if not name:
            show.say("it has no name; with --name, `key list` says later whose it is")


@api_command(keys, "list")
async def list_keys(client: ApiSession, show: Show) -> None:
    """List the keys; only their names and scopes are known."""
    empty = "no keys yet; make one: [bold]mailonce key add --scope reader[/bold]"
    show.page(await client.get("keys"), KEY_COLUMNS, empty=empty)


@keys.command("child", cls=PlainCommand)
def make_child(
    expectation: Annotated[str, typer.Argument(metavar="EXPECTATION", help="exp_…")],
    *,
    parent: Annotated[
        str,
        typer.Option(
            envvar="MAILONCE_KEY", help="agent's or operator's key to make it of; @FILE or -"
        ),
    ],
    minutes: Annotated[
        int, typer.Option(min=1, max=LIFE_S_MAX // 60, help="how long it may be used")
    ] = 10,
    uses: Annotated[
        int, typer.Option(min=1, max=USES_MAX, help="how many values it may consume")
    ] = 1,
    json: AsJson = False,
) -> None:
    """Make a key for one expectation, without a server; it ends with its parent."""
    secret = read_secret("--parent", parent)
    if not secret.startswith(KEY_PREFIX):
        raise ConfigError(
            f"`--parent` is no key that mailonce made ({KEY_PREFIX}…); make one: "
            "`mailonce key add --scope agent`"
        )
    private(EXPECTATION_PREFIX, expectation)
    expires_ms = int(time.time() * 1000) + minutes * 60_000
    key = make_child_key(
        secret, expectation, expires_ms=expires_ms, uses=uses, nonce=secrets.token_hex(8)
    )
    show = Show(json=json)
    made = {
        "key": key,
        "expectation": expectation,
        "uses": uses,
        "expires_at": moment(expires_ms),
    }
    if not show.answer(made):
        show.say(f"key for {expectation}, until {made['expires_at']}: [bold]{key}[/bold]")


@api_command(keys, "revoke")
async def revoke_key(
    client: ApiSession,
    show: Show,
    key_id: Annotated[str, typer.Argument(metavar="ID", help="key_…, its beginning, or its name")],
    *,
    yes: Yes = False,
) -> None:
    """Revoke a key; it is refused everywhere within a second."""
    key = _chosen(key_id, (await client.get("keys"))["data"])
    called = f"{key['scope']} key {key['name'] or '(no name)'} ({key['id']})"
    confirm(f"Revoke {called}? Whoever uses it is refused.", yes=yes)
    await client.delete("keys", key["id"])
    if not show.answer({"revoked": key["id"]}):
        show.console.print(f"{called} is revoked", markup=False)


def _chosen(text: str, known: Sequence[Any]) -> Any:
    """Find the key in force that somebody means by its id, the beginning of it, or its name.

    Raises: MissingError where there is none, RefusedError where there are several.
    """
    in_force = [key for key in known if key["revoked_at"] is None]
    matches = [key for key in in_force if text == key["id"]]
    if not matches:
        # What a narrow list cut ends in an ellipsis.
        begin = text.removesuffix("…")
        is_begin = len(begin) >= len("key_") + DIGITS_MIN
        matches = [
            key for key in in_force
            if key["name"] == text or (is_begin and key["id"].startswith(begin))
        ]  # fmt: skip
    if not matches:
        raise MissingError(f"there is no key {text[:80]!r} in force; see `mailonce key list`")
    if len(matches) > 1:
        ids = ", ".join(str(key["id"]) for key in matches[:2])
        raise RefusedError(f"{text[:80]!r} may mean several keys; give more of the id: {ids}, …")
    return matches[0]


@api_command(workspaces, "add", creates=True)
async def add_workspace(
    client: ApiSession, show: Show, name: Annotated[str, typer.Argument(metavar="NAME")]
) -> None:
    """Make a workspace, and an operator key for it."""
    made = await client.post("workspaces", body={"name": name})
    if not show.answer(made):
        show.say(f"workspace [bold]{name}[/bold] is ready ({made['id']})")
        show.say(f"operator key, shown this once: [bold]{made['key']}[/bold]")


@api_command(workspaces, "list")
async def list_workspaces(client: ApiSession, show: Show) -> None:
    """List the workspaces."""
    empty = "no workspaces; make one: [bold]mailonce workspace add NAME[/bold]"
    show.page(await client.get("workspaces"), WORKSPACE_COLUMNS, empty=empty)
