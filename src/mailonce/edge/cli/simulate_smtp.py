"""`mailonce simulate smtp`: a mail server that loses replies, and sends its mail again."""

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from rich.markup import escape

from mailonce.edge.cli.show import Column, Show
from mailonce.errors import ConfigError
from mailonce.testing import PlanOptions, send_mail
from mailonce.testing.mail import SimulatedMail
from mailonce.testing.mail_storm import SENDER, make_mails, plan_deliveries

SMTP = "smtp"
TO = "127.0.0.1:2525"
COLUMNS = tuple(
    Column(heading, heading, right=True)
    for heading in ("mails", "attempts", "lost", "acknowledged", "refused")
)


class MailWish(NamedTuple):
    """Mail that a simulation should hand over, instead of events."""

    recipients: tuple[str, ...] = ()
    # In which of the provider's forms; None is the first of them.
    mode: str | None = None
    file: Path | None = None

    @property
    def is_empty(self) -> bool:
        return self == MailWish()


def mails_of(wish: MailWish, options: PlanOptions, *, now_s: int) -> list[SimulatedMail]:
    """Write the mails of a run: one of the user's own to each address, or some of ours.

    Raises: ConfigError where there is nobody to write to, or the file cannot be read.
    """
    recipients, file = wish.recipients, wish.file
    if not recipients:
        raise ConfigError("`--mail` is missing; write --mail ADDRESS with the address of an inbox")
    if file is None:
        # A later run has other mails: else it would only make copies of the first run's.
        name = f"simulated-{options.seed}-{options.name}{now_s:x}"
        return make_mails(recipients, name, options.events, now_s=now_s)
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}; name a file") from error
    return [SimulatedMail(raw, SENDER, (one,)) for one in recipients]


def simulate_smtp(show: Show, to: str | None, wish: MailWish, options: PlanOptions) -> bool:
    """Send mails until each reply was seen; say whether all of them were accepted."""
    host, port = place_of_server(to or TO)
    mails = mails_of(wish, options, now_s=int(time.time()))
    deliveries = plan_deliveries(mails, options)
    codes: Counter[int | None] = Counter()
    successes = losses = 0
    replies: set[str] = set()
    started = time.monotonic()
    with show.progress() as progress:
        task = progress.add_task("mails", total=len(deliveries))
        for one in deliveries:
            report = send_mail(
                host,
                port,
                one.mail.raw,
                sender=one.mail.sender,
                recipients=one.mail.recipients,
                lost_answers=one.lost_answers,
                hangs_up=one.hangs_up,
                attempts_max=one.lost_answers + 3,
            )
            codes.update(report.codes)
            successes += report.is_accepted
            losses += one.lost_answers
            if not report.is_accepted:
                replies.add(report.reply)
            progress.advance(task)
    row: dict[str, Any] = {
        "mails": len(deliveries),
        "attempts": codes.total(),
        "lost": losses,
        "acknowledged": successes,
        "refused": len(deliveries) - successes,
        "codes": {str(code or 0): times for code, times in codes.items()},
    }
    well = successes == len(deliveries)
    if not show.answer({"provider": SMTP, "seed": options.seed, **row, "well": well}):
        show.table(COLUMNS, [row])
        took_s = time.monotonic() - started
        show.say(f"{codes.total():,} attempts in {took_s:.1f} s: {_word(row, sorted(replies))}")
    return well


def _word(row: dict[str, Any], replies: Sequence[str]) -> str:
    if not row["refused"]:
        return "[green]everything was accepted[/green]"
    answers = escape("; ".join(replies[:3]))
    return f"[bold red]{row['refused']:,} mails were not accepted[/bold red]; replies: {answers}"


def place_of_server(text: str) -> tuple[str, int]:
    """Read HOST:PORT.

    Raises: ConfigError.
    """
    try:
        parts = urlsplit(text if "://" in text else f"smtp://{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or parts.scheme != SMTP:
        raise ConfigError(f"{text!r} is no mail server; write HOST:PORT, such as {TO}")
    return host, port or 25
