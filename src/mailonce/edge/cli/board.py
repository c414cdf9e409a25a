"""The board of `mailonce listen`: one line for each event, and the selected one."""

import sys
from collections import deque
from dataclasses import dataclass, field
from typing import Self

import orjson
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from mailonce.edge.cli.forward import ForwardedEvent
from mailonce.edge.cli.show import STYLES

ROWS_MAX = 500
# Heading, column names, the line of keys, and room around them.
FRAME_LINES = 7
KEYS = "↑/↓ select   r redeliver   q quit"


class Lines:
    """One line for each answer, for pipes and logs."""

    def __init__(self, *, json: bool) -> None:
        self._json = json

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """There is nothing to restore."""

    def add(self, event: ForwardedEvent) -> None:
        """Wait for the answer: it stands in the same line."""

    def change(self, event: ForwardedEvent) -> None:
        if self._json:
            names = ("at", "type", "recipient", "key", "status", "latency_ms", "attempts")
            line = orjson.dumps({name: getattr(event, name) for name in names}).decode()
        else:
            line = (
                f"{event.at}  {event.type:12}  {event.recipient}  {event.answer}  "
                f"{event.latency_ms} ms  attempt {event.attempts}"
            )
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def report(self, sentence: str) -> None:
        """Print trouble beside the answers."""
        if sentence:
            sys.stderr.write(f"mailonce: {sentence}\n")
            sys.stderr.flush()


@dataclass(slots=True)
class Board:
    """The rows and the selected one; the newest stands at the bottom."""

    rows: deque[ForwardedEvent] = field(default_factory=lambda: deque(maxlen=ROWS_MAX))
    # Counted from the newest, which stays selected until a key is pressed.
    selected: int = 0

    @property
    def chosen(self) -> ForwardedEvent | None:
        return self.rows[-1 - self.selected] if self.rows else None

    def move(self, lines: int) -> None:
        """Select another row; up is older."""
        self.selected = max(0, min(len(self.rows) - 1, self.selected - lines))

    def add(self, event: ForwardedEvent) -> None:
        """Put a row at the bottom; the selection stays on the same row."""
        if self.selected:
            self.selected = min(self.selected + 1, ROWS_MAX - 1)
        self.rows.append(event)

    def table(self, height: int) -> Table:
        """Lay out the rows around the selected one."""
        made = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", expand=True)
        made.add_column("", width=1)
        for heading in ("time", "type"):
            made.add_column(heading, no_wrap=True)
        made.add_column("recipient", no_wrap=True, overflow="ellipsis", ratio=1)
        made.add_column("status", no_wrap=True)
        for heading in ("latency", "attempts"):
            made.add_column(heading, justify="right", no_wrap=True)
        chosen = len(self.rows) - 1 - self.selected
        first = max(0, min(chosen, len(self.rows) - max(1, height)))
        for place, event in enumerate(self.rows):
            if first <= place < first + max(1, height):
                made.add_row(*_cells(event, is_chosen=place == chosen))
        return made


class Screen:
    """The board on a terminal."""

    def __init__(self, console: Console, heading: Text) -> None:
        self.board = Board()
        self._console = console
        self._heading = heading
        self._trouble = ""
        self._live = Live(console=console, screen=True, auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.__enter__()
        self.draw()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.__exit__(None, None, None)

    def add(self, event: ForwardedEvent) -> None:
        self.board.add(event)
        self.draw()

    def change(self, event: ForwardedEvent) -> None:
        """Draw the row anew."""
        del event
        self.draw()

    def report(self, sentence: str) -> None:
        """Show trouble above the keys."""
        self._trouble = sentence
        self.draw()

    def draw(self) -> None:
        """Draw everything; a terminal may have changed its size."""
        rows = self.board.table(
            self._console.height - FRAME_LINES - self._heading.plain.count("\n")
        )
        waiting = Text("waiting for events …" if not self.board.rows else "", "dim")
        foot = Text(self._trouble, "bold red") if self._trouble else Text(KEYS, "dim")
        self._live.update(Group(self._heading, "", rows, waiting, foot), refresh=True)


View = Lines | Screen


def _cells(event: ForwardedEvent, *, is_chosen: bool) -> list[Text]:
    status = "dim" if not event.attempts else "green" if event.is_taken else "bold red"
    row = "reverse" if is_chosen else ""
    return [
        Text(">" if is_chosen else " ", "bold"),
        Text(event.at, row),
        Text(event.type, STYLES.get(event.type, "")),
        Text(event.recipient, row),
        Text(event.answer, status),
        Text(f"{event.latency_ms:,} ms" if event.attempts else "", ""),
        Text(str(event.attempts), "yellow" if event.attempts > 1 else ""),
    ]
