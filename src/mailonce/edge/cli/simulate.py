"""`mailonce simulate`: play a provider or a mail server, and report what was acknowledged."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlsplit

import orjson
import typer

from mailonce import providers
from mailonce.core.moment import moment
from mailonce.core.time_words import EXAMPLES, past_ms_of
from mailonce.edge.cli.client import verification_of
from mailonce.edge.cli.command import AsJson
from mailonce.edge.cli.exits import CHECK_FAILED
from mailonce.edge.cli.show import Column, Show
from mailonce.edge.cli.simulate_hostile import HOSTILE, simulate_hostile
from mailonce.edge.cli.simulate_smtp import SMTP, MailWish, mails_of, simulate_smtp
from mailonce.errors import ConfigError
from mailonce.testing import (
    Call,
    Plan,
    PlanOptions,
    PostResponse,
    SimulationPace,
    SimulationReport,
    Simulator,
    mail_settings,
    make_plan,
    make_simulator,
)
from mailonce.testing import simulate as run
from mailonce.testing.happenings import SPREAD_S
from mailonce.testing.mail_storm import HookSide, plan_mails
from mailonce.testing.simulator import PostingSide

SETTINGS_HEAD = (
    "# Test keys, made from the seed: whoever knows it can sign. Remove this source afterwards."
)
DAY_S = 86_400
DAYS_MAX = 30
UNAUTHORIZED = 401
NOT_FOUND = 404
# Who sends over SMTP: a mail server that loses replies, and one that sends hostile mails.
MAIL_SENDERS = {SMTP: simulate_smtp, HOSTILE: simulate_hostile}
COUNTS = tuple(
    Column(heading, heading.replace(" ", "_"), right=True)
    for heading in (
        "posts", "attempts", "acknowledged", "refused", "gave up", "corrupted",
        "corrupted refused",
    )
)  # fmt: skip

StormEnd = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="when the last happened: now, 2h, …; default: the last midnight"
    ),
]
StormDays = Annotated[
    int | None, typer.Option(min=1, max=DAYS_MAX, help="spread them over so many days")
]


def simulate(
    provider: Annotated[
        str, typer.Argument(metavar="PROVIDER", help="provider to simulate; `smtp` or `mail`: SMTP")
    ],
    *,
    to: Annotated[
        str | None,
        typer.Option(help="where to post: http://HOST:PORT/in/NAME; of smtp: HOST:PORT"),
    ] = None,
    mail: Annotated[
        list[str] | None,
        typer.Option("--mail", metavar="ADDRESS", help="hand over mail to it; may be repeated"),
    ] = None,
    mode: Annotated[
        str | None, typer.Option(help="how mail is posted: raw, parsed …; of `mail`: which")
    ] = None,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE.eml", help="a mail of yours, instead of ours")
    ] = None,
    settings: Annotated[
        bool, typer.Option("--settings", help="print the source that trusts it, and stop")
    ] = False,
    events: Annotated[
        int, typer.Option(min=1, max=100_000, help="distinct events, or mails")
    ] = 100,
    rate: Annotated[float, typer.Option(min=0.1, help="posts a second, at most")] = 200.0,
    duplicates: Annotated[
        float, typer.Option(min=0, max=100, help="copies for each event: 0.3 is 30 %")
    ] = 0.3,
    shuffle: Annotated[bool, typer.Option("--shuffle", help="in any order")] = False,
    corrupt: Annotated[
        float, typer.Option(min=0, max=1, help="share of further posts, damaged on their way")
    ] = 0.0,
    seed: Annotated[
        str, typer.Option(help="the same seed makes the same storm, and the same keys")
    ] = "1",
    run_name: Annotated[
        str,
        typer.Option("--run", metavar="NAME", help="other events under the keys of the seed"),
    ] = "",
    until: StormEnd = None,
    days: StormDays = None,
    retries: Annotated[
        bool, typer.Option("--retries/--no-retries", help="try again, as the provider does")
    ] = True,
    time_scale: Annotated[
        float, typer.Option(min=1, help="how many of the provider's seconds pass in one")
    ] = 3600.0,
    json: AsJson = False,
) -> None:
    """Play a provider: sign, batch and retry as it does; report what was acknowledged."""
    options = PlanOptions(
        events=events, duplicates=duplicates, shuffle=shuffle, corrupt=corrupt, seed=seed
    )
    wish = MailWish(tuple(mail or ()), mode, file)
    _check_times(provider, wish, until, days)
    if (send := MAIL_SENDERS.get(provider)) is not None:
        raise typer.Exit(0 if send(Show(json=json), to, wish, options) else CHECK_FAILED)
    simulator = make_simulator(provider, seed, to=to)
    if settings:
        trusted = mail_settings(simulator) if mail else simulator.settings()
        typer.echo(source_toml(_source_name(simulator, to), trusted), nl=False)
        return
    if to is None:
        raise ConfigError("`--to` is missing; write http://HOST:PORT/in/NAME, or use --settings")
    options = replace(options, name=storm_name(seed, run_name, days), spread_s=_spread_s(days))
    storm = _storm(simulator, wish, options, end_s(until, now_s=int(time.time())))
    pace = SimulationPace(rate=rate, retries=retries, time_scale=time_scale)
    well = asyncio.run(_simulate(Show(json=json), storm, pace))
    raise typer.Exit(0 if well else CHECK_FAILED)


def _check_times(provider: str, wish: MailWish, until: str | None, days: int | None) -> None:
    if days is not None and (not wish.is_empty or provider in MAIL_SENDERS):
        raise ConfigError("`--days` is for events; mail is sent at one time, so leave it out")
    if until is not None and provider in MAIL_SENDERS:
        raise ConfigError("`--until` is for webhooks; over SMTP mail is sent now, so leave it out")


def _spread_s(days: int | None) -> int:
    return SPREAD_S if days is None else days * DAY_S


class _Storm(NamedTuple):
    """What is played: whose posts of what, and what these are called."""

    simulator: Simulator
    side: PostingSide
    plan: Plan
    noun: str
    seed: str
    # When the last of it happened.
    end_s: int


def _storm(simulator: Simulator, wish: MailWish, options: PlanOptions, now_s: int) -> _Storm:
    if wish.is_empty:
        plan = make_plan(simulator, options, now_s=now_s)
        return _Storm(simulator, simulator, plan, "events", options.seed, now_s)
    mails = mails_of(wish, options, now_s=now_s)
    side = HookSide(simulator, mails, mode=wish.mode)
    return _Storm(simulator, side, plan_mails(mails, options), "mails", options.seed, now_s)


def storm_name(seed: str, run_name: str, days: int | None) -> str:
    """Name a storm after all that makes its events, beside the time at which it ended.

    The ids of events have it. So the same command repeats a storm, and another one never says
    something else of the same events.
    """
    return sha256(f"{seed}/{run_name}/{days}".encode()).hexdigest()[:6] + "-"


def end_s(until: str | None, *, now_s: int) -> int:
    """Give the time at which a storm ended: on one day, it is the same for every run.

    Raises: ConfigError where `until` is no time, or not past.
    """
    if until is None:
        return now_s // DAY_S * DAY_S
    ms = past_ms_of(until, now_ms=now_s * 1000)
    if ms is None or not SPREAD_S * 1000 <= ms <= now_s * 1000:
        raise ConfigError(f"`--until` is {until[:40]!r}; write a time that is past: {EXAMPLES}")
    return ms // 1000


async def _simulate(show: Show, storm: _Storm, pace: SimulationPace) -> bool:
    simulator, plan, noun = storm.simulator, storm.plan, storm.noun
    started = time.monotonic()
    with show.progress() as progress:
        task = progress.add_task("attempts", total=len(plan.order))

        def hear(_call: Call, _response: PostResponse | None) -> None:
            progress.advance(task)

        tls = verification_of(storm.side.to, None) or None
        report = await run(storm.side, plan, now_s=time.time, pace=pace, hear=hear, tls=tls)
    took_s = time.monotonic() - started
    played = providers.find(simulator.provider)
    let_in = report.corrupted_acknowledged if played is not None and played.signs_body else 0
    row = _row(report, noun)
    well = report.acknowledged == report.posts and not let_in
    hint = _hint(storm, report)
    until = moment(storm.end_s * 1000)
    shown = {"provider": simulator.name, "seed": storm.seed, "until": until, **row}
    shown |= {"well": well, "hint": hint}
    if not show.answer(shown):
        show.table((Column(noun, noun, right=True), *COUNTS), [row])
        show.say(f"{report.attempts:,} attempts in {took_s:.1f} s: {_word(report, let_in)}")
        if hint is not None:
            show.say(hint)
        show.say(f"[dim]the same command with --until {until} repeats it[/dim]")
    return well


def _hint(storm: _Storm, report: SimulationReport) -> str | None:
    """Say what to do where the receiver has other keys, or no such source."""
    if set(report.codes) == {NOT_FOUND}:
        return (
            "there is no such source; add the lines that the same command prints with --settings "
            "to mailonce.toml, then run `mailonce reload`; a source of another workspace than the "
            "default one is at the URL that `mailonce source list` shows"
        )
    if not report.codes[UNAUTHORIZED] or report.acknowledged == report.posts:
        return None
    return (
        "the keys are made from the seed; give the source those that "
        f"`mailonce simulate {storm.simulator.name} --seed {storm.seed} --settings` prints"
    )


def _row(report: SimulationReport, noun: str) -> dict[str, Any]:
    return {
        noun: len(report.happened),
        f"{noun}_acknowledged": len(report.events_acknowledged),
        "posts": report.posts,
        "attempts": report.attempts,
        "acknowledged": report.acknowledged,
        "refused": report.refused,
        "gave_up": report.gave_up,
        "corrupted": report.corrupted,
        "corrupted_refused": report.corrupted - report.corrupted_acknowledged,
        "codes": {str(code): times for code, times in sorted(report.codes.items())},
    }


def _word(report: SimulationReport, let_in: int) -> str:
    missing = report.posts - report.acknowledged
    if missing:
        codes = ", ".join(
            f"{f'HTTP {code}' if code else 'no answer'}: {times:,} times"
            for code, times in report.codes.most_common(4)
        )
        return f"[bold red]{missing:,} posts were not acknowledged[/bold red]; answers: {codes}"
    if let_in:
        return f"[bold red]{let_in:,} corrupted posts were acknowledged[/bold red]"
    return "[green]all expected posts were acknowledged[/green]"


def _source_name(simulator: Simulator, to: str | None) -> str:
    """Take the name from the URL, where one is given."""
    parts = urlsplit(to or "").path.strip("/").split("/")
    return parts[1] if len(parts) > 1 and parts[0] == "in" else simulator.name


def source_toml(name: str, settings: Mapping[str, Any]) -> str:
    """Write the settings of a source as they stand in `mailonce.toml`."""
    lines = [SETTINGS_HEAD, f"[sources.{name}]"]
    lines += [f"{key} = {_toml_value(value)}" for key, value in settings.items()]
    return "\n".join([*lines, ""])


def _toml_value(value: Any) -> str:
    match value:
        case dict():
            pairs = (f"{_toml_value(key)} = {_toml_value(one)}" for key, one in value.items())
            return "{ " + ", ".join(pairs) + " }"
        case list():
            return "[" + ", ".join(map(_toml_value, value)) + "]"
        case _:
            # JSON's text, numbers and truth are TOML's.
            return orjson.dumps(value).decode()
