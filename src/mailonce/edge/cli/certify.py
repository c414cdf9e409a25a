"""`mailonce route test`: probe a receiver and grade its answers."""

import typer
from rich.table import Table
from rich.text import Text

from mailonce.core.deliveries.certify import NOTHING_TO_DO, Grade
from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.exits import CHECK_FAILED
from mailonce.edge.cli.routes import RouteName
from mailonce.edge.cli.show import Show

STYLES = {"A": "bold green", "B": "green", "C": "yellow", "D": "red", "F": "bold red"}
# A receiver with a worse grade fails the test.
PASSES = {Grade.A, Grade.B}


async def test(client: ApiSession, show: Show, name: RouteName) -> None:
    """Send probes, good and bad ones, to a receiver; grade its answers from A to F."""
    with show.console.status("sending probes …"):
        certificate = await client.post("routes", name, "test")
    if not show.answer(certificate):
        grid = Table.grid(padding=(0, 2, 0, 0))
        for finding in certificate["data"]:
            text = Text(finding["detail"])
            if finding["advice"] != NOTHING_TO_DO:
                text.append(f"\n→ {finding['advice']}", "bold")
            grid.add_row(Text(finding["grade"], STYLES[finding["grade"]]), finding["check"], text)
        show.console.print(grid)
        grade = Text(certificate["grade"], STYLES[certificate["grade"]])
        show.console.print(Text.assemble("\n", certificate["route"], ": ", grade))
    raise typer.Exit(0 if certificate["grade"] in PASSES else CHECK_FAILED)
