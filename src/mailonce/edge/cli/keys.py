"""`mailonce key` and `mailonce workspace`: who may call the API, and for whom."""

from typing import Annotated

import typer

from mailonce.core.access import Scope
from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.command import api_command, group
from mailonce.edge.cli.show import Column, Show

keys = group("key", "Add, list and revoke API keys.")
workspaces = group("workspace", "Add and list workspaces.")

KEY_COLUMNS = (
    Column("name", "name"),
    Column("scope", "scope"),
    Column("made", "created_at"),
    Column("revoked", "revoked_at"),
    Column("id", "id", whole=True),
)
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


@api_command(keys, "list")
async def list_keys(client: ApiSession, show: Show) -> None:
    """List the keys; only their names and scopes are known."""
    empty = "no keys yet; make one: [bold]mailonce key add --scope reader[/bold]"
    show.page(await client.get("keys"), KEY_COLUMNS, empty=empty)


@api_command(keys, "revoke")
async def revoke_key(
    client: ApiSession,
    show: Show,
    key_id: Annotated[str, typer.Argument(metavar="ID", help="key_…, from `key list`")],
) -> None:
    """Revoke a key; it is refused everywhere within a second."""
    await client.delete("keys", key_id)
    if not show.answer({"revoked": key_id}):
        show.say(f"key {key_id} is revoked")


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
