"""Wiring: from settings to a service; the only module that builds parts."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType

from mailonce.clock import Clock
from mailonce.core.deliveries.route import RouteKind
from mailonce.core.events.suppression import Suppress, suppress_of
from mailonce.core.health.checkup import Finding
from mailonce.core.signatures.proof import check_network
from mailonce.core.signatures.sealing import Sealer
from mailonce.core.work.breaker import BreakerRule
from mailonce.errors import ConfigError
from mailonce.handlers import Handlers
from mailonce.inbox.expectations.expectation_parts import ExpectationRules
from mailonce.inbox.expectations.expectation_service import ExpectationService
from mailonce.inbox.mail_parts import MailParts
from mailonce.inbox.reread_mail import with_mail
from mailonce.log_lines import start_logging
from mailonce.mail_wiring import build_digests, build_expectations, build_mail, digest_rules
from mailonce.manage.data_folder import make_folder
from mailonce.manage.dev_inboxes import DevInboxes
from mailonce.manage.management import build_management
from mailonce.manage.managing import Parts
from mailonce.manage.master_key import master_keys_of, prepare_master_key
from mailonce.manage.settings_file import check_records
from mailonce.net.dialer import check_hosts
from mailonce.net.http import GuardedClient
from mailonce.net.keys import KeyRing
from mailonce.net.mx import MxResolver
from mailonce.pipeline.deliver import deliver
from mailonce.pipeline.receive import Receiving
from mailonce.pipeline.record import Limits, Recorder
from mailonce.pipeline.refuse import Refusals
from mailonce.pipeline.replay import LogReplay
from mailonce.pipeline.run_handler import handle
from mailonce.queue.alarm import Alarms
from mailonce.queue.configuration import ConfigurationCache
from mailonce.queue.deliveries import Deliveries, Runner
from mailonce.queue.maintain import Maintenance, MaintenanceStep
from mailonce.queue.poll import Polls
from mailonce.queue.rerun import Reruns
from mailonce.queue.wake import Wakes
from mailonce.queue.worker import Worker
from mailonce.queue.worker_limits import WorkerLimits
from mailonce.send.send_service import SendService
from mailonce.send_wiring import build_send_work, build_sends
from mailonce.service import Service
from mailonce.settings import Role, Settings
from mailonce.store.database import open_database, open_log, open_scratch
from mailonce.store.dialects.contract import Database
from mailonce.store.ledger import effects, origins
from mailonce.store.readiness import Readiness
from mailonce.store.schema.mail_tables import DIGEST_TABLE
from mailonce.store.schema.send_tables import SEND_TABLE
from mailonce.store.schema.work_table import DELIVERY_TABLE
from mailonce.telemetry import Metrics
from mailonce.views.doctor import examine_mx
from mailonce.views.reread import arrivals_reader

SETTLE_S = 3
# A tick of the maintenance is a second.
EXPIRE_EVERY_TICKS = 2
TRIM_EVERY_TICKS = 60
SWEEP_EVERY_TICKS = 300
# What the recorder does not need to know.
_DOOR_LIMITS = {"body_bytes_max", "mail_bytes_max", "arrival_events_max"}
_NO_RUNNERS: Mapping[RouteKind, Runner] = MappingProxyType({})


async def build_service(
    settings: Settings, clock: Clock | None = None, *, prepares: bool = True
) -> Service:
    """Build a service, not yet started.

    `prepares=False` is for looking alone: no folder, table or partition is made, and the caller
    checks the settings.

    Raises: ConfigError or UnavailableError, in one sentence.
    """
    clock = clock or Clock()
    if prepares:
        check_settings(settings)
        make_folder(settings.data_dir)
    metrics = Metrics()
    limits = settings.limits
    database, master_keys = await _open(settings, clock, prepares=prepares)
    sealer = Sealer(master_keys)
    client = GuardedClient(**settings.net.of_client())
    refusals = Refusals(database, process=clock.new_id())
    configuration = ConfigurationCache(database, clock, sealer, metrics)
    wakes, polls = Wakes(database), Polls(database, clock)
    wakes.on_due, wakes.on_configuration = polls.wake, configuration.refresh_soon
    configuration.notify = wakes.tell_changed
    recorder = _recorder(database, clock, metrics, settings, configuration, wakes)
    mail = build_mail(database, clock, recorder, master_keys, settings, metrics=metrics)
    key_ring = KeyRing(client, monotonic=clock.monotonic)
    alarms = Alarms(database, clock, metrics, configuration, recorder.record)
    receiving = _receiving(
        database, clock, metrics, recorder, refusals, configuration, key_ring, client, alarms, mail,
        settings,
    )  # fmt: skip
    expectations = build_expectations(
        database, clock, sealer, master_keys, client, recorder, wakes, mail, metrics, settings
    )
    parts = Parts(database, clock, sealer, client, configuration, window_days=settings.window_days)
    manage = build_management(parts, settings.inboxes, mail.purge)
    dev = DevInboxes(mail.acceptance, manage.domains, manage.inboxes)
    sends = build_sends(database, clock, sealer, recorder, configuration, wakes, settings, dev)
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
        manage=manage,
        reruns=_reruns(database, clock, configuration, wakes, settings),
        wakes=wakes,
        alarms=alarms,
        receiving=receiving,
        maintenance=_maintenance(
            database, metrics, refusals, mail, expectations, sends, clock, settings
        ),
        polls=polls,
        mail=mail,
        expectations=expectations,
        sends=sends,
        ready=Readiness(database, process=clock.new_id(), monotonic=clock.monotonic),
        examine_mx=_mx_examination(database, settings),
        window_days=settings.window_days,
        body_bytes_max=limits.body_bytes_max,
        mail_bytes_max=_mail_bytes_max(settings),
        trusted_proxies=tuple(settings.net.trusted_proxies),
        public_url=settings.public_url.rstrip("/"),
        database_place=settings.database_place,
    )


async def _open(settings: Settings, clock: Clock, *, prepares: bool) -> tuple[Database, list[str]]:
    """Open the database, and take the master keys, of which one is made where there is none."""
    flushers = settings.limits.flushers
    database = await open_database(settings.database_url, flushers=flushers, prepares=prepares)
    try:
        await prepare_master_key(database, settings, clock)
        return database, master_keys_of(settings, clock)
    except BaseException:
        await database.close()
        raise


def _receiving(
    database: Database,
    clock: Clock,
    metrics: Metrics,
    recorder: Recorder,
    refusals: Refusals,
    configuration: ConfigurationCache,
    key_ring: KeyRing,
    client: GuardedClient,
    alarms: Alarms,
    mail: MailParts,
    settings: Settings,
) -> Receiving:
    return Receiving(
        database=database,
        clock=clock,
        metrics=metrics,
        recorder=recorder,
        refusals=refusals,
        known_source=configuration.known_source,
        find_source=configuration.find_source,
        fetch_key=key_ring.get,
        fetch_url=client.fetch_status,
        note=alarms.note,
        match_mail=mail.acceptance.match,
        arrival_events_max=settings.limits.arrival_events_max,
        suppress=suppress_settings(settings),
        skew_ms=lambda: configuration.skew_ms,
    )


def _mx_examination(
    database: Database, settings: Settings
) -> Callable[[], Awaitable[list[Finding]]]:
    hosts = MxResolver(settings.net.nameservers).hosts
    return partial(examine_mx, database, hosts, hostname=settings.smtp.hostname)


def _mail_bytes_max(settings: Settings) -> int:
    """Give the limit of mail; what can never be held would be asked for again and again."""
    limits = settings.limits
    return max(limits.body_bytes_max, min(limits.mail_bytes_max, settings.door.held_bytes_max))


def _maintenance(
    database: Database,
    metrics: Metrics,
    refusals: Refusals,
    mail: MailParts,
    expectations: ExpectationService,
    sends: SendService,
    clock: Clock,
    settings: Settings,
) -> Maintenance:
    sweep = expectations.sweep

    async def flush() -> None:
        await refusals.flush()
        await mail.refusals.flush()

    return Maintenance(
        database,
        metrics,
        flush,
        new_id=clock.new_id,
        window_days=settings.window_days,
        facts_days=settings.facts_days,
        steps=[
            MaintenanceStep("expire", EXPIRE_EVERY_TICKS, mail.purge.expire, forgets=True),
            MaintenanceStep("trim", TRIM_EVERY_TICKS, mail.purge.trim),
            MaintenanceStep("sweep", SWEEP_EVERY_TICKS, mail.purge.sweep, forgets=True),
            MaintenanceStep("expectations", 1, sweep.run),
            MaintenanceStep("artifacts", SWEEP_EVERY_TICKS, sweep.forget, forgets=True),
            MaintenanceStep("sends", SWEEP_EVERY_TICKS, sends.purge.forget, forgets=True),
        ],
        works=(DELIVERY_TABLE, DIGEST_TABLE, SEND_TABLE),
    )


def _recorder(
    database: Database,
    clock: Clock,
    metrics: Metrics,
    settings: Settings,
    configuration: ConfigurationCache,
    wakes: Wakes,
) -> Recorder:
    return Recorder(
        database,
        clock,
        metrics,
        _recorder_limits(settings),
        routing=lambda: configuration.snapshot.routing,
        refresh=configuration.refresh,
        owed=wakes.owed,
    )


def _reruns(
    database: Database,
    clock: Clock,
    configuration: ConfigurationCache,
    wakes: Wakes,
    settings: Settings,
) -> Reruns:
    days = settings.window_days
    read = with_mail(
        arrivals_reader(database), database, digest_rules(settings, master_keys_of(settings, clock))
    )
    return Reruns(database, clock, configuration, read, window_days=days, wake=wakes.owed)


def handler_runner(service: Service, handlers: Handlers) -> Mapping[RouteKind, Runner]:
    """Let a worker run handlers; it takes only the lanes of those that this process has."""
    run = partial(handle, service.database, service.clock, handlers)
    return {RouteKind.HANDLER: Runner(run, lambda route: handlers.find(route.id) is not None)}


def add_worker(
    service: Service, settings: Settings, runners: Mapping[RouteKind, Runner] = _NO_RUNNERS
) -> None:
    """Let a service make deliveries, if that is its role; call it before the start.

    `runners` adds kinds of routes to the webhooks that every worker delivers.
    """
    if not settings.has_role(Role.WORKER):
        return
    given = settings.worker
    service.stop_s += given.drain_s
    dev = DevInboxes(service.mail.acceptance, service.manage.domains, service.manage.inboxes)
    webhooks = {RouteKind.WEBHOOK: Runner(partial(deliver, service.client, service.clock))}
    deliveries = Deliveries(
        service.database, service.clock, service.configuration, webhooks | dict(runners)
    )
    digests = build_digests(service, settings, master_keys_of(settings, service.clock))
    service.worker = Worker(
        service.database,
        service.clock,
        service.metrics.outgoing,
        [deliveries, digests, build_send_work(service, settings, dev)],
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
    service.recorder.reserve = service.worker.reserve


def check_settings(settings: Settings) -> None:
    """Check what the settings mean together, before anything is opened or made.

    Raises: ConfigError, in one sentence.
    """
    if settings.public_host is not None and settings.admin_key is None:
        raise ConfigError(
            f"`host` is {settings.public_host!r}, reachable from outside: "
            "set MAILONCE_ADMIN_KEY first"
        )
    for network in settings.net.trusted_proxies:
        check_network(network, "net.trusted_proxies")
    check_hosts(settings.net.hosts)
    suppress_settings(settings)
    check_records(settings)


def use_settings(service: Service, settings: Settings) -> None:
    """Let a running service go by other settings, as far as its parts take them."""
    service.client.allow(**settings.net.model_dump(include={"allow_hosts", "hosts"}))
    service.recorder.limits = _recorder_limits(settings)
    service.receiving.arrival_events_max = settings.limits.arrival_events_max
    service.receiving.suppress = suppress_settings(settings)
    service.body_bytes_max = settings.limits.body_bytes_max
    service.mail_bytes_max = _mail_bytes_max(settings)
    service.trusted_proxies = tuple(settings.net.trusted_proxies)
    service.expectations.parts.rules = ExpectationRules(**settings.expectations.model_dump())
    start_logging(json=settings.log_format == "json", level=settings.log_level)
    for use in service.on_settings:
        use(settings)


def _recorder_limits(settings: Settings) -> Limits:
    return Limits(**settings.limits.model_dump(exclude=_DOOR_LIMITS))


@asynccontextmanager
async def open_replay(
    settings: Settings, folder: Path, *, settle_s: float = SETTLE_S
) -> AsyncIterator[LogReplay | None]:
    """Open the log for reading, and a scratch database in `folder`.

    A log that grew within `settle_s` may grow behind our back; 0 is for one that nobody writes.
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
        if is_shared and clock.now_ms() - extent.last_ms < settle_s * 1000:
            # A batch under way may still bear an earlier time than the newest arrival.
            await asyncio.sleep(settle_s)
        scratch = await open_scratch(folder / "scratch.db")
        try:
            yield LogReplay(
                log=log,
                scratch=scratch,
                clock=clock,
                sources=await log.read(origins.of_all),
                extent=extent,
                suppress=suppress_settings(settings),
            )
        finally:
            await scratch.close()
    finally:
        await log.close()


def suppress_settings(settings: Settings) -> dict[str, Suppress]:
    """Say which events suppress, by workspace; '' stands for all others.

    Raises: ConfigError that names the word which means nothing.
    """
    all_others = {} if settings.suppress is None else {"": suppress_of(settings.suppress)}
    own = {name: suppress_of(limits.suppress) for name, limits in settings.workspaces.items()}
    return all_others | own
