"""The options that lists share: from when to when, how many rows, and where to go on."""

import time
from typing import Annotated

import typer

from mailonce.core.moment import moment
from mailonce.core.time_words import EXAMPLES, past_ms_of
from mailonce.errors import ConfigError

# Rows are read page by page, but shown together.
ROWS_MAX = 100_000


def read_time(text: str) -> str:
    """Write a time as the API takes it.

    Raises: ConfigError where it is none.
    """
    ms = past_ms_of(text, now_ms=time.time_ns() // 1_000_000)
    if ms is None:
        raise ConfigError(f"{text[:40]!r} is no time; write {EXAMPLES}")
    return moment(ms)


Since = Annotated[
    str | None,
    typer.Option(
        "--since", parser=read_time, metavar="TIME", help="at this time or later: 2h, today, …"
    ),
]
Until = Annotated[
    str | None,
    typer.Option("--until", parser=read_time, metavar="TIME", help="before this time (UTC)"),
]
Limit = Annotated[int, typer.Option("--limit", min=1, max=ROWS_MAX, help="maximum number of rows")]
Cursor = Annotated[
    str | None, typer.Option("--cursor", help="continue where a list ended that had more")
]
