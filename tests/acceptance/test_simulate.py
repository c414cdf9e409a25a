"""Every provider, played to a server: duplicated, shuffled and damaged, each event counts once.

What a provider does not sign cannot be told from what it said: there a damaged post may bring at
most one event, and where it came first under an event's key the honest one is kept as a conflict.
"""

import asyncio
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import asyncpg
import httpx
import orjson
import pytest

from mailonce import providers
from mailonce.edge.cli.simulate import source_toml
from mailonce.testing import (
    Plan,
    PlanOptions,
    SimulationPace,
    SimulationReport,
    Simulator,
    make_plan,
    make_simulator,
    simulate,
)
from mailonce.testing.compare import Effect, EffectComparison, ShownEffects, compare_effects
from mailonce.testing.simulators import names
from tests.acceptance.harness import ADMIN_KEY, Server, running
from tests.commands import Shell
from tests.net.conftest import Authority, Peer, authority, peer
from tests.servers import PostgresServer

__all__ = ["authority", "peer"]

SEED = "a seed for tests"
EVENTS = 60
WISH = PlanOptions(events=EVENTS, duplicates=0.3, shuffle=True, corrupt=0.05, seed=SEED)
PACE = SimulationPace(rate=2000, connections=8)
# For these the server must fetch a certificate first, from a stand-in for the provider's host.
CERTIFIED = [name for name in names() if make_simulator(name).certificates]
NAMES = [name for name in names() if name not in CERTIFIED]
# Arrays with a signature, a signature that is not of the body, and none at all.
ON_POSTGRES = ["sendgrid", "mailgun", "postmark"]


def settings_of(port: int, wanted: list[str]) -> str:
    return "\n".join(
        source_toml(name, played(name, f"http://127.0.0.1:{port}").settings()) for name in wanted
    )


def played(name: str, url: str) -> Simulator:
    return make_simulator(name, SEED, to=f"{url}/in/{name}")


@pytest.fixture(scope="module")
def on_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server with a source for each simulator."""
    folder = tmp_path_factory.mktemp("simulate")
    server = Server(folder / "server", f"sqlite:///{folder / 'data.db'}")
    server.settings = settings_of(server.port, NAMES)
    with running(server):
        yield server


@pytest.fixture(scope="module")
def on_postgres(
    postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    name = f"t_{uuid4().hex}"
    asyncio.run(_create(postgres.url(), name))
    server = Server(tmp_path_factory.mktemp("simulate") / "server", postgres.url(name))
    server.settings = settings_of(server.port, ON_POSTGRES)
    with running(server):
        yield server


async def _create(url: str, name: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()


@pytest.mark.parametrize("name", NAMES)
async def test_on_sqlite_what_was_acknowledged_is_stored_once(on_sqlite: Server, name: str) -> None:
    await _storm(on_sqlite, name)


@pytest.mark.parametrize("name", ON_POSTGRES)
async def test_on_postgres_what_was_acknowledged_is_stored_once(
    on_postgres: Server, name: str
) -> None:
    await _storm(on_postgres, name)


@pytest.mark.parametrize("name", CERTIFIED)
async def test_what_a_fetched_certificate_proves_is_stored_once(
    tmp_path: Path, peer: Peer, authority: Authority, name: str
) -> None:
    server = Server(tmp_path / "server", f"sqlite:///{tmp_path / 'data.db'}")
    ((url, peer.key),) = played(name, server.url).certificates.items()
    net = f"""
[net]
ca_file = "{authority.ca_file}"
hosts = {{ "{urlsplit(url).hostname}" = "{peer.address}" }}
"""
    server.settings = settings_of(server.port, [name]) + net
    try:
        # The stand-in answers in this loop, so nothing here may block it.
        await asyncio.to_thread(server.start)
        await _storm(server, name)
    finally:
        server.kill()

    assert len(peer.seen) == 1


@pytest.mark.parametrize("name", ["standardwebhooks", "ses"])
async def test_what_a_stopped_server_did_not_take_is_taken_by_a_retry(
    tmp_path: Path, name: str
) -> None:
    server = Server(tmp_path / "server", f"sqlite:///{tmp_path / 'data.db'}")
    server.settings = settings_of(server.port, [name])
    simulator = played(name, server.url)
    plan = make_plan(simulator, PlanOptions(events=10, shuffle=True), now_s=int(time.time()))
    server.spawn()
    # Four attempts of SNS are a minute of its own; let that minute be long enough to start in.
    patience = SimulationPace(time_scale=sum(simulator.retry_waits_s) / 20)
    try:
        report = await simulate(simulator, plan, now_s=time.time, pace=patience)
        shown = await asyncio.to_thread(_shown, server, name, plan)
    finally:
        server.kill()

    assert report.untold == []
    assert report.attempts > report.posts == 10
    assert compare_effects(plan.happened, shown) == EffectComparison(effects=10, lost=0, doubled=0)


def test_the_command_prints_the_source_and_then_tells_what_was_acknowledged(
    tmp_path: Path,
) -> None:
    shell = Shell(tmp_path)
    printed = shell.ok("simulate", "hmac", "--settings", "--to", "http://127.0.0.1:1/in/shop")
    (tmp_path / "mailonce.toml").write_text(printed.out)
    with shell.serving() as url:
        command = ("simulate", "hmac", "--to", f"{url}/in/shop", "--events", "20", "--shuffle")
        result = shell.run(*command, "--corrupt", "0.2", "--json")
        # Also where the day ends meanwhile.
        again = (*command, "--until", result.json["until"])
        shown = shell.run_on_a_terminal(*again, "--rate", "1000")
        strange = shell.run(*command, "--seed", "2", "--no-retries", "--json")
        elsewhere = ("simulate", "hmac", "--to", f"{url}/in/not-there", "--no-retries", "--json")
        unknown = shell.run(*elsewhere, "--events", "3")
        events = shell.ok("events", "list", "--limit", "100", "--json").json["data"]
        shell.ok(*command, "--run", "another")
        more = shell.ok("events", "list", "--limit", "100", "--json").json["data"]

    assert tomllib.loads(printed.out)["sources"]["shop"]["provider"] == "hmac"
    assert result.code == 0, result.err
    assert result.json["events"] == result.json["events_acknowledged"] == 20
    assert result.json["acknowledged"] == result.json["posts"]
    assert result.json["corrupted"] == result.json["corrupted_refused"] > 0
    assert shown.code == 0
    assert "all expected posts were acknowledged" in shown.out
    assert strange.code == 1
    assert strange.json["acknowledged"] == 0
    assert strange.json["gave_up"] == strange.json["posts"] > 0
    assert "simulate hmac --seed 2 --settings" in strange.json["hint"]
    assert "no such source" in unknown.json["hint"]
    assert "`mailonce reload`" in unknown.json["hint"]
    assert len(events) == 20, "the same seed makes the same events"
    times = [datetime.fromisoformat(one["occurred_at"]).timestamp() for one in events]
    assert time.time() - 86_400 - 2 * 7200 < min(times) <= max(times) < time.time()
    assert len(more) == 40


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["pigeon", "--to", "http://127.0.0.1:1/in/x"], "there is no simulator 'pigeon'"),
        (["ses"], "`--to` is missing"),
        (["ses", "--to", "nowhere"], "'nowhere' is no URL"),
        (["ses", "--to", "http://127.0.0.1:1/in/x", "--until", "soon"], "a time that is past"),
        (["smtp", "--days", "3"], "`--days` is for events"),
    ],
)
def test_a_command_that_cannot_work_says_why_in_one_sentence(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    done = Shell(tmp_path).run("simulate", *arguments)

    assert done.code == 2
    assert said in done.err
    assert done.err.count("\n") == 1


async def _storm(server: Server, name: str) -> None:
    simulator = played(name, server.url)
    plan = make_plan(simulator, WISH, now_s=int(time.time()))

    report = await simulate(simulator, plan, now_s=time.time, pace=PACE)

    shown = await asyncio.to_thread(_shown, server, name, plan)
    provider = providers.find(simulator.provider)
    assert provider is not None
    assert report.untold == []
    assert report.acknowledged == report.posts > EVENTS / simulator.batch_max
    assert report.corrupted > 0
    if provider.signs_body:
        assert report.corrupted_acknowledged == 0
        assert compare_effects(plan.happened, shown) == EffectComparison(
            effects=EVENTS, lost=0, doubled=0
        )
    else:
        conflicts = server.get("/v1/conflicts", limit=1000)["data"]
        source = server.get(f"/v1/sources/{name}")["id"]
        _check_unsigned(plan, report, shown, sum(one["source"] == source for one in conflicts))


def _check_unsigned(
    plan: Plan, report: SimulationReport, shown: ShownEffects, conflicts: int
) -> None:
    expected = {Effect(one.message_id, one.recipient, one.type.value) for one in plan.happened}
    listed = Counter(
        Effect(one["message_id"] or "", one["recipient"] or "", one["type"]) for one in shown.events
    )

    missing = sum(listed[one] == 0 for one in expected)
    too_many = sum(times - (one in expected) for one, times in listed.items())

    assert missing <= conflicts
    assert too_many <= report.corrupted_acknowledged
    assert sum(row["count"] for row in shown.stats) == listed.total()


def _shown(server: Server, name: str, plan: Plan) -> ShownEffects:
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as client:

        def get(path: str, **query: Any) -> Any:
            answer = client.get(path, params=query)
            return orjson.loads(answer.content) if answer.status_code == 200 else None

        source = get(f"/v1/sources/{name}")["id"]
        ids = sorted({one.message_id for one in plan.happened})
        shown = [get(f"/v1/messages/{one}", source=source) for one in ids]
        return ShownEffects(
            events=get("/v1/events", source=source, limit=1000)["data"],
            stats=get("/v1/stats", source=source, limit=1000)["data"],
            messages=[one for one in shown if one is not None],
        )
