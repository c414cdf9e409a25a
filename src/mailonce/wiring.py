"""Wiring: from settings to a service; the only module that builds parts."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType

from mailonce.clock import Clock
from mailonce.core.access import Scope
from mailonce.core.breaker import BreakerRule
from mailonce.core.ids import public
from mailonce.core.route import RouteKind
from mailonce.core.seal import Sealer
from mailonce.core.source import Source
from mailonce.errors import ConfigError
from mailonce.net.http import GuardedClient
from mailonce.net.keys import KeyRing
from mailonce.pipeline.deliver import deliver
from mailonce.pipeline.receive import Door
from mailonce.pipeline.record import Limits, Recorder
from mailonce.pipeline.refuse import Refusals
from mailonce.pipeline.replay import Replay
from mailonce.queue.alarm import Alarms
from mailonce.queue.attempt import Runner
from mailonce.queue.configuration import ConfigurationCache
from mailonce.queue.maintain import Maintenance
from mailonce.queue.wake import Wakes
from mailonce.queue.worker import Worker, WorkerLimits
from mailonce.service import Service, check_source
from mailonce.settings import Role, Settings, SourceSettings
from mailonce.store import effects, keys, origins
from mailonce.store.database import open_database, open_log, open_scratch
from mailonce.store.workspaces import DEFAULT as DEFAULT_WORKSPACE
from mailonce.telemetry import Metrics

SETTLE_S = 3

_NO_RUNNERS: Mapping[RouteKind, Runner] = MappingProxyType({})


async def build_service(settings: Settings, clock: Clock | None = None) -> Service:
    """Build a service, not yet started.

    Raises: ConfigError or UnavailableError, in one sentence.
    """
    clock = clock or Clock()
    _check(settings)
    _make_folder(settings.data_dir)
    sealer = Sealer(master_keys_of(settings, clock))
    metrics = Metrics()
    limits = settings.limits
    database = await open_database(settings.database_url, flushers=limits.flushers)
    client = _client(settings)
    refusals = Refusals(database, process=clock.new_id())
    bounds = Limits(**limits.model_dump(exclude={"body_bytes_max"}))
    configuration = ConfigurationCache(database, clock, sealer, metrics)
    wakes = Wakes(database, clock)
    recorder = Recorder(
        database,
        clock,
        metrics,
        bounds,
        routing=lambda: configuration.snapshot.routing,
        refresh=configuration.refresh,
        owed=wakes.owed,
    )
    key_ring = KeyRing(client, monotonic=clock.monotonic)

    async def fetch_status(url: str) -> int:
        return (await client.get(url, bytes_max=65_536, timeout_s=5)).status

    alarms = Alarms(database, clock, metrics, configuration, recorder.record)
    door = Door(
        database=database,
        clock=clock,
        metrics=metrics,
        recorder=recorder,
        refusals=refusals,
        fetch_key=key_ring.get,
        fetch_url=fetch_status,
        note=alarms.note,
        skew_ms=lambda: configuration.skew_ms,
    )
    return Service(
        database=database,
        clock=clock,
        metrics=metrics,
        sealer=sealer,
        client=client,
        key_ring=key_ring,
        recorder=recorder,
        refusals=refusals,
        configuration=configuration,
        wakes=wakes,
        alarms=alarms,
        door=door,
        maintenance=Maintenance(
            database,
            metrics,
            refusals.flush,
            window_days=settings.window_days,
            facts_days=settings.facts_days,
        ),
        window_days=settings.window_days,
        body_bytes_max=limits.body_bytes_max,
        trusted_proxies=tuple(settings.net.trusted_proxies),
    )


def _client(settings: Settings) -> GuardedClient:
    net = settings.net
    return GuardedClient(allow_hosts=net.allow_hosts, hosts=net.hosts, ca_file=net.ca_file)


def add_worker(
    service: Service, settings: Settings, runners: Mapping[RouteKind, Runner] = _NO_RUNNERS
) -> None:
    """Let a service work off what is owed, if that is its role; call it before the start.

    `runners` adds kinds of routes to the webhooks that every worker delivers.
    """
    if not settings.has_role(Role.WORKER):
        return
    given = settings.worker
    service.worker = Worker(
        service.database,
        service.clock,
        service.metrics.outgoing,
        service.configuration,
        {RouteKind.WEBHOOK: Runner(partial(deliver, service.client, service.clock)), **runners},
        service.wakes,
        WorkerLimits(
            concurrency=given.concurrency,
            lease_s=given.lease_s,
            hold_s=given.hold_s,
            drain_s=given.drain_s,
            lost_leases_max=given.lost_leases_max,
            breaker=BreakerRule(given.breaker_failures, given.breaker_wait_s),
        ),
    )


def _check(settings: Settings) -> None:
    """Check what the settings mean together, before anything is opened or made."""
    if settings.is_public and settings.admin_key is None:
        raise ConfigError(
            f"`host` is {settings.host!r}, reachable from outside: set MAILONCE_ADMIN_KEY first"
        )
    for name, source in settings.sources.items():
        check_source(source_of(name, source), window_days=settings.window_days)


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"`data_dir` {str(path)!r} cannot be made ({error.strerror}); "
            "choose a folder that can be written"
        ) from error


async def apply_settings(service: Service, settings: Settings) -> str | None:
    """Bring the file's sources into the database, and see that there is an admin key.

    Gives the admin key if one had to be made: it is shown once.
    """
    await service.configuration.reload()
    for name, wanted in settings.sources.items():
        source = source_of(name, wanted)
        if service.snapshot.sources.get(source.id) != source:
            await service.put_source(source, origin="file")
    if settings.admin_key is not None:
        if not service.knows_key(settings.admin_key):
            await service.make_key(
                DEFAULT_WORKSPACE, Scope.ADMIN, "MAILONCE_ADMIN_KEY", settings.admin_key
            )
        return None
    if await service.database.read(keys.has_admin):
        return None
    return (await service.make_key(DEFAULT_WORKSPACE, Scope.ADMIN, "first start"))[1]


@asynccontextmanager
async def open_replay(settings: Settings, folder: Path) -> AsyncIterator[Replay | None]:
    """Open the log beside whoever writes it, and a scratch database in `folder`.

    Gives None where nothing has arrived yet.
    Raises: ConfigError or UnavailableError, in one sentence.
    """
    clock = Clock()
    log, is_shared = await open_log(settings.database_url)
    try:
        extent = await log.read(effects.extent)
        if extent is None:
            yield None
            return
        if is_shared and clock.now_ms() - extent.last_ms < SETTLE_S * 1000:
            # A batch under way may still bear an earlier time than the newest arrival.
            await asyncio.sleep(SETTLE_S)
        scratch = await open_scratch(folder / "scratch.db")
        try:
            yield Replay(
                log=log,
                scratch=scratch,
                clock=clock,
                sources=await log.read(origins.of_all),
                extent=extent,
            )
        finally:
            await scratch.close()
    finally:
        await log.close()


def source_of(
    name: str,
    settings: SourceSettings,
    *,
    workspace: str = DEFAULT_WORKSPACE,
    id_: str | None = None,
) -> Source:
    """Make a source of its settings. A source of the file keeps its id over restarts."""
    return Source(
        id=id_ or f"src_{name}",
        workspace=workspace,
        name=name,
        provider=settings.provider,
        account=settings.account or name,
        secrets=_several(settings.secret),
        public_keys=_several(settings.public_key),
        basic=_several(settings.basic),
        tokens=_several(settings.token),
        headers=_several(settings.header),
        allow_ips=tuple(settings.allow_ips),
        topic_arns=tuple(settings.topic_arns),
        unproven=settings.unproven,
        poison=settings.poison,
        poison_attempts=settings.poison_attempts,
        freshness_s=settings.freshness_s,
        silence_s=settings.silence_s,
        options=settings.options,
    )


def new_source_id(clock: Clock) -> str:
    """Give a global id to a source made over the API."""
    return public("src", clock.new_id())


def master_keys_of(settings: Settings, clock: Clock) -> list[str]:
    """Take the master keys from the settings, else from a file that only we may read."""
    given = _several(settings.master_key)
    if given:
        return list(given)
    path: Path = settings.data_dir / "master.key"
    if not path.exists():
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(clock.chance(32).hex() + "\n")
            file.flush()
            os.fsync(file.fileno())
    return path.read_text().split()


def _several(value: str | list[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)
