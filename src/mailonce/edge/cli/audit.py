"""`mailonce audit`: who changed what."""

from typing import Annotated

import typer

from mailonce.core.reading.values import bare_address
from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.list_options import Cursor, Limit, Since, Until, empty_list
from mailonce.edge.cli.show import Column, Show

COLUMNS = (
    Column("when", "at"),
    Column("who", "who"),
    Column("what", "what", wraps=True),
    Column("on", "object", whole=True),
)


async def audit(
    client: ApiSession,
    show: Show,
    *,
    by: Annotated[
        str | None, typer.Option(help="only by this key, or local:USER, or a part of it")
    ] = None,
    object: Annotated[  # noqa: A002 - as the option is called
        str | None, typer.Option(help="only on this name, address or id")
    ] = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 200,
    cursor: Cursor = None,
) -> None:
    """List who changed what, newest first."""
    # As people copy an address out of a mail; changes are named by the address alone.
    object_ = None if object is None else bare_address(object)
    wanted = {"by": by, "object": object_, "since": since, "until": until}
    page = await client.some("audit", limit=limit, cursor=cursor, **wanted)
    if not show.json:
        page["data"] = [row | {"who": row["by_name"] or row["by"]} for row in page["data"]]
    show.page(page, COLUMNS, empty=empty_list("changes", wanted, "nothing was changed yet"))
