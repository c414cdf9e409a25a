"""`mailonce demo`: a storm of signed, duplicated, shuffled webhooks, and its effects."""

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from rich.table import Table

from mailonce.edge.cli.client import ApiSession, ServerAddress, open_client
from mailonce.edge.cli.events import TIMELINE, headline, timeline_rows
from mailonce.edge.cli.show import Show
from mailonce.edge.cli.spare_server import Spare, spare_server
from mailonce.testing import Load, PostResponse, Simulator, make_load, make_simulators, post_all
from mailonce.testing.compare import EffectComparison, ShownEffects, compare_effects
from mailonce.testing.load import SHARES

CONNECTIONS = 32
QUESTIONS_AT_ONCE = 8
NOTHING = EffectComparison(0, 0, 0)
COLUMNS = ("sent", "accepted", "duplicates", "refused", "effects", "lost", "doubled")


@dataclass(slots=True)
class Row:
    """What one provider sent, the answers it got, and the effects."""

    sent: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    comparison: EffectComparison = NOTHING

    def numbers(self) -> dict[str, int]:
        """Give the numbers in the order of the table."""
        statuses, outcome = self.statuses, self.comparison
        named = (statuses["accepted"], statuses["duplicate"], statuses["refused"])
        values = (self.sent, *named, outcome.effects, outcome.lost, outcome.doubled)
        return dict(zip(COLUMNS, values, strict=True))


async def demo(show: Show, *, url: str | None, key: str | None, events: int, seed: int) -> bool:
    """Send the load, read its effects from the API, and say whether each event took effect once."""
    async with _server(url, key) as server:
        simulators = make_simulators(SHARES)
        async with open_client(ServerAddress(url=server.url, key=server.key)) as client:
            tag = "" if url is None else f"demo-{secrets.token_hex(3)}-"
            sources = await _add_sources(client, simulators, tag)
            try:
                load = make_load(simulators, events=events, seed=seed, now_s=int(time.time()))
                rows = {name: Row() for name in simulators}
                took_s = await _send_load(show, server.url, load, sources, rows)
                messages = await _read_effects(show, client, load, sources, rows)
            finally:
                if url is not None:
                    await _remove_sources(client, sources)
    totals = {name: sum(row.numbers()[name] for row in rows.values()) for name in COLUMNS}
    once = totals["lost"] == totals["doubled"] == 0
    if not show.answer({"seed": seed, "events": events, **totals}):
        _print(show, rows, totals, _busiest(messages))
        word = "[green]each took effect once[/green]" if once else "[bold red]not once[/bold red]"
        show.say(f"{events:,} events in {totals['sent']:,} posts, {took_s:.1f} s: {word}")
    return once


@asynccontextmanager
async def _server(url: str | None, key: str | None) -> AsyncIterator[Spare]:
    if url is not None:
        yield Spare(url, key or "")
        return
    async with spare_server() as spare:
        yield spare


async def _add_sources(
    client: ApiSession, simulators: dict[str, Simulator], tag: str
) -> dict[str, Any]:
    return {
        name: await client.post("sources", body={"name": tag + name, **simulator.settings()})
        for name, simulator in simulators.items()
    }


async def _remove_sources(client: ApiSession, sources: dict[str, Any]) -> None:
    """Remove the demo's sources from a server that stays."""
    for source in sources.values():
        await client.delete("sources", source["id"])


async def _send_load(
    show: Show, url: str, load: Load, sources: dict[str, Any], rows: dict[str, Row]
) -> float:
    started = time.monotonic()
    with show.progress() as progress:
        task = progress.add_task("storm", total=len(load.shots))

        def hear(number: int, response: PostResponse) -> None:
            row = rows[load.shots[number].provider]
            row.sent += 1
            row.statuses[orjson.loads(response.body).get("status", "refused")] += 1
            progress.advance(task)

        requests = ((sources[shot.provider]["url"], shot.post) for shot in load.shots)
        await post_all(url, requests, hear, connections=CONNECTIONS)
    return time.monotonic() - started


async def _read_effects(
    show: Show, client: ApiSession, load: Load, sources: dict[str, Any], rows: dict[str, Row]
) -> list[Any]:
    """Read all effects from the API: what was sent is compared with what it shows."""
    all_messages: list[Any] = []
    turns = asyncio.Semaphore(QUESTIONS_AT_ONCE)
    names = {
        name: sorted({happening.message_id for happening in happened})
        for name, happened in load.happenings.items()
    }
    with show.progress() as progress:
        task = progress.add_task("asking", total=sum(map(len, names.values())))

        async def message(source: str, message_id: str) -> Any:
            async with turns:
                shown_message = await client.find("messages", message_id, source=source)
            progress.advance(task)
            return shown_message

        for name, row in rows.items():
            source = sources[name]["id"]
            answers = await asyncio.gather(*(message(source, id_) for id_ in names[name]))
            messages = [answer for answer in answers if answer is not None]
            shown = ShownEffects(
                events=await client.all("events", source=source),
                stats=await client.all("stats", source=source),
                messages=messages,
            )
            row.comparison = compare_effects(load.happenings[name], shown)
            all_messages += messages
    return all_messages


def _print(
    show: Show, rows: dict[str, Row], totals: dict[str, int], busiest: tuple[Any, Any] | None
) -> None:
    made = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_footer=True)
    made.add_column("provider", footer="total")
    for name in COLUMNS:
        wrong = name in {"lost", "doubled"} and totals[name]
        style = "bold red" if wrong else "bold green" if name in {"lost", "doubled"} else "bold"
        made.add_column(name, footer=f"{totals[name]:,}", justify="right", footer_style=style)
    for name, row in rows.items():
        made.add_row(name, *(f"{number:,}" for number in row.numbers().values()))
    show.say("")
    show.console.print(made)
    if busiest is not None:
        message, person = busiest
        show.say(f"\none of the messages, [bold]{message['message_id']}[/bold]:")
        show.console.print(headline(person))
        show.table(TIMELINE, timeline_rows(person["timeline"]), sparse=True)
    show.say("")


def _busiest(messages: Sequence[Any]) -> tuple[Any, Any] | None:
    """Pick the message with the most copies."""
    people = [(message, recipient) for message in messages for recipient in message["recipients"]]
    return max(people, key=lambda pair: sum(e["copies"] for e in pair[1]["timeline"]), default=None)
