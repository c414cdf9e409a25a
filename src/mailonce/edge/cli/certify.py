"""`mailonce route test`: see whether a receiver does what it should."""

import typer
from rich.table import Table
from rich.text import Text

from mailonce.core.certify import NOTHING_TO_DO, Grade
from mailonce.edge.cli.client import Client
from mailonce.edge.cli.exits import FOUND_SOMETHING
from mailonce.edge.cli.routes import RouteName
from mailonce.edge.cli.show import Show

STYLES = {"A": "bold green", "B": "green", "C": "yellow", "D": "red", "F": "bold red"}
# Whoever is worse than that is not ready.
PASSES = {Grade.A, Grade.B}


async def test(client: Client, show: Show, name: RouteName) -> None:
    """Send probes, good and bad ones, to a receiver; grade its answers from A to F."""
    with show.console.status("sending probes …"):
        found = await client.post("routes", name, "test")
    if not show.answer(found):
        grid = Table.grid(padding=(0, 2, 0, 0))
        for one in found["data"]:
            told = Text(one["detail"])
            if one["advice"] != NOTHING_TO_DO:
                told.append(f"\n→ {one['advice']}", "bold")
            grid.add_row(Text(one["grade"], STYLES[one["grade"]]), one["check"], told)
        show.console.print(grid)
        grade = Text(found["grade"], STYLES[found["grade"]])
        show.console.print(Text.assemble("\n", found["route"], ": ", grade))
    raise typer.Exit(0 if found["grade"] in PASSES else FOUND_SOMETHING)
