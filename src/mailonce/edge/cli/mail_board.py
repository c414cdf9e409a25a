"""The live table of `mailonce inbox watch`: one line for each mail."""

import asyncio
import sys
from collections import deque
from typing import Any, Self

import orjson
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.show import Show, moment
from mailonce.errors import GoneError, UnavailableError

POLL_WAIT_S = 20
PAGE_ROWS = 50
AWAY_S = 1.0
ROWS_MAX = 500
FRAME_LINES = 5


class MailBoard:
    """Shows mail: a live table on a terminal, a line for each in a pipe."""

    def __init__(self, show: Show, address: str) -> None:
        self._show = show
        self._address = address
        self._rows: deque[Any] = deque(maxlen=ROWS_MAX)
        self._trouble = ""
        is_live = show.console.is_terminal and not show.json
        self._live = (
            Live(console=show.console, auto_refresh=False, screen=True) if is_live else None
        )

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.__enter__()
            self._draw()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.__exit__(None, None, None)

    def add(self, message: Any) -> None:
        """Show one more mail."""
        self._rows.append(message)
        if self._live is not None:
            self._draw()
            return
        line = orjson.dumps(message).decode() if self._show.json else "  ".join(_texts(message))
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def report(self, trouble: str) -> None:
        """Show what keeps mail from being shown; empty where nothing does any more."""
        if trouble == self._trouble:
            return
        self._trouble = trouble
        if self._live is not None:
            self._draw()
        elif trouble:
            sys.stderr.write(f"mailonce: {trouble}\n")
            sys.stderr.flush()

    def _draw(self) -> None:
        assert self._live is not None
        made = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", expand=True)
        made.add_column("seq", justify="right", no_wrap=True)
        made.add_column("received", no_wrap=True)
        made.add_column("from", no_wrap=True, overflow="ellipsis", ratio=2)
        made.add_column("subject", no_wrap=True, overflow="ellipsis", ratio=3)
        made.add_column("files", justify="right", no_wrap=True)
        height = max(1, self._show.console.height - FRAME_LINES)
        for message in list(self._rows)[-height:]:
            # What a sender wrote is text, never markup.
            made.add_row(*(Text(one) for one in _texts(message)))
        waiting = Text("" if self._rows else "waiting for mail …", "dim")
        foot = Text(self._trouble, "bold red") if self._trouble else Text("Ctrl-C ends", "dim")
        heading = Text.assemble(("mailonce inbox", "bold"), f" {self._address}")
        self._live.update(Group(heading, "", made, waiting, foot), refresh=True)


async def follow(
    client: ApiSession, inbox: str, board: MailBoard, *, after: int, count: int | None
) -> None:
    """Read and wait, for ever or for `count` mails; a server that is away is waited for."""
    seen = 0
    while count is None or seen < count:
        try:
            query = {"after": after, "wait": POLL_WAIT_S, "limit": PAGE_ROWS}
            page = await client.get("inboxes", inbox, "messages", **query)
        except GoneError as error:
            board.report(str(error))
            after = int(error.members.get("next", after))
            continue
        except UnavailableError as error:
            board.report(f"{error}; trying again")
            await asyncio.sleep(AWAY_S)
            continue
        board.report("")
        for message in page["data"]:
            board.add(message)
            seen += 1
            if count is not None and seen >= count:
                return
        after = page["next"]


def _texts(message: Any) -> list[str]:
    sender = (message["from"] or {}).get("address") or "-"
    texts = [
        str(message["seq"]),
        moment(message["received_at"]),
        sender,
        message["subject"] or "-",
        str(len(message["attachments"]) or ""),
    ]
    # A control character of the sender's would move the cursor of the terminal.
    return ["".join(char for char in text if char.isprintable()) for text in texts]
