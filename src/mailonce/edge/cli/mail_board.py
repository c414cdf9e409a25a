"""The lines of `mailonce inbox watch`: what came stays on the terminal when it ends."""

import asyncio
import sys
from typing import Any, Self

import orjson
from rich.status import Status
from rich.text import Text

from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.show import Show, moment, printable
from mailonce.errors import GoneError, UnavailableError

POLL_WAIT_S = 20
PAGE_ROWS = 50
AWAY_S = 1.0
WAITING = "waiting for mail; Ctrl-C ends"
GAP = "  "
# Of the second line of a mail on a narrow terminal.
INDENT = 4


class MailBoard:
    """Shows a line for each mail; on a terminal there is a line below that says what is waited for.

    On a narrow terminal a mail has two lines, so that its id can be copied.
    """

    def __init__(self, show: Show, address: str) -> None:
        self._show = show
        self._address = address
        self._trouble = ""
        is_live = show.console.is_terminal and not show.json
        self._status = Status(Text(WAITING, "dim"), console=show.console) if is_live else None

    def __enter__(self) -> Self:
        if self._status is not None:
            heading = Text.assemble(("mailonce inbox", "bold"), f" {self._address}")
            self._show.console.print(heading)
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def add(self, message: Any) -> None:
        """Show one more mail."""
        if self._show.json:
            line = orjson.dumps(message).decode()
        elif self._status is not None:
            # What a sender wrote is text, never markup.
            self._show.console.print(Text(self._lines(message)), soft_wrap=True)
            return
        else:
            line = GAP.join(_texts(message))
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def report(self, trouble: str) -> None:
        """Show what keeps mail from being shown; empty where nothing does any more."""
        if trouble == self._trouble:
            return
        self._trouble = trouble
        if self._status is not None:
            self._status.update(Text(trouble, "bold red") if trouble else Text(WAITING, "dim"))
        elif trouble:
            sys.stderr.write(f"mailonce: {trouble}\n")
            sys.stderr.flush()

    def _lines(self, message: Any) -> str:
        texts = _texts(message)
        line = GAP.join(texts)
        if Text(line).cell_len <= self._show.console.width:
            return line
        return f"{GAP.join(texts[:3])}\n{' ' * INDENT}{GAP.join(texts[3:])}"


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
    """Give number, time, sender, id, files and subject."""
    files = len(message["attachments"])
    texts = [
        str(message["seq"]),
        moment(message["received_at"]),
        (message["from"] or {}).get("address") or "-",
        message["id"],
        f"{files} file{'' if files == 1 else 's'}" if files else "",
        message["subject"] or "-",
    ]
    # A line is a mail, also for a program that reads them.
    return [printable(text).replace("\n", " ").replace("\t", " ") for text in texts if text]
