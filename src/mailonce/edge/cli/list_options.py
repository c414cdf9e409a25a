"""The options that lists share: about what, from when to when, how many rows, where to go on."""

import time
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.markup import escape

from mailonce.core.moment import DAY_MS, moment
from mailonce.core.time_words import (
    DAY_EXAMPLES,
    EXAMPLES,
    is_to_come,
    past_day_ms_of,
    past_ms_of,
)
from mailonce.edge.cli.show import moment as short_time
from mailonce.errors import ConfigError

# Rows are read page by page, but shown together.
ROWS_MAX = 100_000


def read_time(text: str) -> str:
    """Write a time as the API takes it.

    Raises: ConfigError where it is none, or still to come today.
    """
    now_ms = time.time_ns() // 1_000_000
    ms = past_ms_of(text, now_ms=now_ms)
    if ms is None:
        raise ConfigError(f"{text[:40]!r} is no time; write {EXAMPLES}")
    if is_to_come(text, now_ms=now_ms):
        raise ConfigError(
            f"{text.strip()} is still to come today, times are in UTC and it is "
            f"{moment(now_ms)[11:16]}; write the day, too, as in {moment(ms - DAY_MS)[:16]}Z"
        )
    return moment(ms)


def read_day(text: str) -> str:
    """Write a day as the API takes it.

    Raises: ConfigError where it is none, or a time within one.
    """
    ms = past_day_ms_of(text, now_ms=time.time_ns() // 1_000_000)
    if ms is None:
        raise ConfigError(
            f"{text[:40]!r} is no day, and counts are by day (UTC); write {DAY_EXAMPLES}"
        )
    return moment(ms)


SourceName = Annotated[str | None, typer.Option("--source", help="only of this source")]
RouteName = Annotated[str | None, typer.Option("--route", help="only of this route")]
Recipient = Annotated[str | None, typer.Option("--recipient", help="only about this address")]
MessageId = Annotated[
    str | None,
    typer.Option("--message-id", "--message", help="only about this message, or send"),
]


def _since(verb: str = "") -> Any:
    help_ = f"{verb} at this time or later: 2h, 10:00, today, …".strip()
    return typer.Option("--since", parser=read_time, metavar="TIME", help=help_)


def _until(verb: str = "") -> Any:
    help_ = f"{verb} before this time (UTC)".strip()
    return typer.Option("--until", parser=read_time, metavar="TIME", help=help_)


Since = Annotated[str | None, _since()]
Until = Annotated[str | None, _until()]
# Of a delivery: when its event was received. Of a dead letter: when it was given up.
SinceReceipt = Annotated[str | None, _since("received")]
UntilReceipt = Annotated[str | None, _until("received")]
SinceFailure = Annotated[str | None, _since("failed")]
UntilFailure = Annotated[str | None, _until("failed")]
SinceDay = Annotated[
    str | None,
    typer.Option(
        "--since",
        parser=read_day,
        metavar="DAY",
        help="received on this day or later: today, 7d, 2026-01-31, …",
    ),
]
UntilDay = Annotated[
    str | None,
    typer.Option("--until", parser=read_day, metavar="DAY", help="received before this day (UTC)"),
]
Limit = Annotated[int, typer.Option("--limit", min=1, max=ROWS_MAX, help="maximum number of rows")]
Cursor = Annotated[
    str | None, typer.Option("--cursor", help="continue where a list ended that had more")
]


def empty_list(nouns: str, filters: Mapping[str, str | bool | None], otherwise: str) -> str:
    """Say which options nothing matched; where none was given, `otherwise`.

    What to do first is no advice for somebody who looked for one thing and did not find it.
    """
    given = [
        f"--{name.replace('_', '-')}" + (f" {short_time(value)}" if isinstance(value, str) else "")
        for name, value in filters.items()
        if value
    ]
    # What was given is never taken for markup.
    return escape(f"no {nouns} with {' and '.join(given)}") if given else otherwise
