"""`mailonce audit`: who changed what."""

from itertools import groupby
from operator import itemgetter
from typing import Annotated, Any

import typer

from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.list_options import Cursor, Limit, Since, Until, empty_list
from mailonce.edge.cli.show import Column, Show

# More than so many in a row are one line.
MANY = 3
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
    by: Annotated[str | None, typer.Option(help="only by this key, or local:USER")] = None,
    object: Annotated[  # noqa: A002 - as the option is called
        str | None, typer.Option(help="only on this name, address or id")
    ] = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 200,
    cursor: Cursor = None,
) -> None:
    """List who changed what, newest first."""
    wanted = {"by": by, "object": object, "since": since, "until": until}
    page = await client.some("audit", limit=limit, cursor=cursor, **wanted)
    if not show.json:
        page["data"] = _together(page["data"])
    show.page(page, COLUMNS, empty=empty_list("changes", wanted, "nothing was changed yet"))


def _together(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Show what somebody did many times in a row, such as retrying dead letters, as one line."""
    lines: list[dict[str, Any]] = []
    for (by, what), group in groupby(rows, key=itemgetter("by", "what")):
        some = list(group)
        first = some[0] | {"who": some[0]["by_name"] or by, "what": what}
        if len(some) > MANY:
            lines.append(first | {"object": f"{first['object']} and {len(some) - 1} more"})
        else:
            lines += [one | {"who": first["who"]} for one in some]
    return lines
