"""`mailonce verify`: proof on the user's own data that order and copies did not matter."""

import tempfile
from pathlib import Path

from rich.table import Table

from mailonce.edge.cli.client import ServerAddress
from mailonce.edge.cli.own_database import has_database
from mailonce.edge.cli.show import Column, Show
from mailonce.log_lines import start_logging
from mailonce.pipeline.replay import ReplayReport, replay
from mailonce.wiring import open_replay

SHOWN_MAX = 30
COLUMNS = (
    Column("what", "what"),
    Column("where", "where", wraps=True),
    Column("stored", "live", wraps=True),
    Column("replayed", "replayed", wraps=True),
)


async def verify(show: Show, target: ServerAddress, *, seed: int) -> bool:
    """Replay the log shuffled and duplicated, and say whether every effect came out the same."""
    settings = target.settings()
    await has_database(settings, creates=False)
    start_logging(json=settings.log_format == "json", level="warning")
    with tempfile.TemporaryDirectory(prefix="mailonce-verify-") as folder:
        async with open_replay(settings, Path(folder)) as parts:
            if parts is None:
                report = ReplayReport()
            else:
                with show.progress() as progress:
                    task = progress.add_task("replay")

                    def step(done: int, total: int) -> None:
                        progress.update(task, completed=done, total=total)

                    report = await replay(parts, seed=seed, progress=step)
    _print(show, report, seed)
    return not report.differences


def _print(show: Show, report: ReplayReport, seed: int) -> None:
    rows = [
        {"what": row.what, "where": row.where, "live": row.live, "replayed": row.replayed}
        for row in report.differences
    ]
    summary = {
        "seed": seed,
        "arrivals": report.arrivals,
        "replayed": report.replayed,
        "compared": dict(report.compared),
        "set_aside": dict(report.aside),
        "differences": rows,
    }
    if show.answer(summary):
        return
    if not report.arrivals:
        show.say("nothing has arrived yet; there is nothing to verify")
        return
    show.say(
        f"{report.arrivals:,} arrivals replayed {report.replayed:,} times at random, seed {seed}"
    )
    grid = Table.grid(padding=(0, 2, 0, 0))
    for what, times in sorted(report.compared.items()):
        grid.add_row(f"{times:,}", f"{what} compared")
    for what, times in sorted(report.aside.items()):
        grid.add_row(f"{times:,}", f"[dim]set aside: {what}[/dim]")
    show.console.print(grid)
    if not rows:
        show.say("[green]every effect came out the same[/green]")
        return
    show.say("")
    show.table(COLUMNS, rows[:SHOWN_MAX], is_whole=True)
    more = f" (the first {SHOWN_MAX} are shown)" if len(rows) > SHOWN_MAX else ""
    show.say(f"\n[bold red]{len(rows):,} differ[/bold red] from what the events make{more}")
