"""Examine a running installation: gather what `core.checkup` judges."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from mailonce import providers
from mailonce.clock import Clock
from mailonce.core.arrivals.source import Source
from mailonce.core.deliveries.route import Route
from mailonce.core.health import checkup, mail_waiting, open_work, source_trouble
from mailonce.core.health.alarm import AlarmKind, Pulse
from mailonce.core.health.checkup import Finding, Level, OffRecord, SourceState
from mailonce.core.health.known_records import KnownRecords, KnownSender
from mailonce.core.health.mail_waiting import WaitingMail
from mailonce.core.health.mx_record import of_mx
from mailonce.core.health.open_work import OpenWork
from mailonce.core.health.record_name import RecordName
from mailonce.core.health.source_trouble import RecentRefusal, SourceAlarm
from mailonce.core.moment import moment
from mailonce.core.sends.sender import Sender
from mailonce.core.signatures import proof
from mailonce.core.signatures.refusal import NO_SOURCE_THEN, UNKNOWN
from mailonce.core.signatures.sealing import Sealer
from mailonce.errors import ConfigError, MailonceError, UnavailableError
from mailonce.store import sealed_values
from mailonce.store.configuration import routes, senders, sources, workspaces
from mailonce.store.database import SchemaState, check_may_migrate, open_database, schema_of
from mailonce.store.dialects.contract import DAY_MS, Database, Tx
from mailonce.store.inboxes import domains, pending_mails
from mailonce.store.ledger import dead_letters, origins, refusals, source_minutes
from mailonce.store.ledger.refusals import RefusalSum
from mailonce.store.sends import pages as send_pages
from mailonce.store.work import clock_step
from mailonce.views.origins import Origins
from mailonce.views.refusals import SourceVariables, advice_by_name, advice_for, made_since

# No more queries than that, however many domains there are.
DOMAINS_MAX = 50
REFUSALS_MAX = 1000
MINUTE_MS = 60_000
HOUR_MINUTES = 60


class _RecentRefusals(NamedTuple):
    """What was refused in the last hour, and what stands beside it."""

    origins: Origins
    in_file: Collection[str]
    # The names of workspaces by id, without the default one.
    names: Mapping[str, str]
    sums: list[RefusalSum]
    # By source.
    pulses: dict[str, list[Pulse]]


class SchemaFindings(NamedTuple):
    """What was found of tables that are not those of this version; `is_empty`: there are none."""

    findings: list[Finding]
    is_empty: bool


async def examine(
    database: Database,
    sealer: Sealer,
    clock: Clock,
    *,
    window_days: int,
    is_running: bool = True,
    sources_in_file: int = 0,
) -> list[Finding]:
    """Check the database, the clock, the window and the sources; nothing is changed.

    `is_running`: this process is a server, and keeps room for the days ahead.
    """
    before = clock.now_ms()
    head = await database.head()
    skew_ms = (before + clock.now_ms()) // 2 - head.now_ms
    server = await examine_server(database)
    today = head.now_ms // DAY_MS
    missing = await database.missing_days(range(today, today + 2))
    note, configured, all_routes, all_senders, needed, names = await database.read(
        lambda tx: (
            clock_step.read_note(tx),
            sources.list_all(tx, sealer),
            routes.list_all(tx, sealer),
            senders.list_all(tx, sealer),
            sealed_values.count_under(tx, sealer.older_ids),
            workspaces.names_of_others(tx),
        )
    )
    states = [_state(source, _name(source, names)) for source in configured]
    nouns = (("source", configured), ("route", all_routes), ("sender", all_senders))
    off = [
        OffRecord(noun, _name(one, names), one.off)
        for noun, records in nouns
        for one in records
        if one.off is not None
    ]
    # Sources are judged one by one.
    unreadable = [
        (noun, str(_name(one, names)))
        for noun, records in nouns[1:]
        for one in records
        if one.is_unreadable
    ]
    return [
        *server,
        checkup.of_clock(skew_ms),
        *checkup.of_forgetting(moment(note.waits_until_ms(head.now_ms))),
        checkup.of_days(missing, is_running=is_running),
        checkup.of_window(window_days, states),
        *checkup.of_sources(states, in_file=sources_in_file),
        *checkup.of_unreadable(unreadable),
        *checkup.of_key_rotation(needed, has_older=bool(sealer.older_ids)),
        *checkup.of_off(off),
    ]


async def has_tables(database_url: str, place: str) -> bool:
    """Say whether the database, called `place`, has tables; nothing is made or changed.

    Raises: ConfigError where they are those of another version, which a server brings up to date.
    """
    schema = await schema_of(database_url)
    if schema is SchemaState.OTHER:
        tables = checkup.of_tables(place, is_empty=False)
        raise ConfigError(f"the tables of {place} {tables.detail}; {tables.advice}")
    return schema is SchemaState.CURRENT


async def examine_schema(
    database_url: str, place: str, *, folder_without_key: str | None, sources_in_file: int
) -> SchemaFindings | None:
    """Check a database that has no tables, or those of another version; None where it has ours.

    `place` is its name for people. `folder_without_key`: the data folder, where no master key was
    given or made yet.
    """
    schema = await schema_of(database_url)
    if schema is SchemaState.CURRENT:
        return None
    is_empty = schema is SchemaState.NONE
    findings: list[Finding] = []
    tables = checkup.of_tables(place, is_empty=is_empty)
    if not database_url.startswith("sqlite://"):
        database = await open_database(database_url, prepares=False)
        try:
            findings += await examine_server(database)
        finally:
            await database.close()
        try:
            await check_may_migrate(database_url, schema)
        except MailonceError as error:
            tables = Finding("tables", Level.FAIL, str(error))
    findings.append(tables)
    if not is_empty:
        return SchemaFindings(findings, is_empty=False)
    if folder_without_key is not None:
        findings.append(checkup.of_no_master_key(folder_without_key, has_secrets=False))
    findings += checkup.of_sources([], in_file=sources_in_file)
    return SchemaFindings(findings, is_empty=True)


async def read_known(database: Database, sealer: Sealer) -> KnownRecords:
    """Read which sources, routes and senders the default workspace has."""
    kinds = await database.read(
        lambda tx: (
            sources.list_all(tx, sealer),
            routes.list_all(tx, sealer),
            senders.list_all(tx, sealer),
        )
    )
    names = [
        {one.id: one.name for one in records if one.workspace == workspaces.DEFAULT}
        for records in kinds[:2]
    ]
    return KnownRecords(
        sources=names[0],
        routes=names[1],
        senders={
            one.id: KnownSender(name=one.name, provider=one.provider, next_sender=one.next_sender)
            for one in kinds[2]
            if one.workspace == workspaces.DEFAULT
        },
    )


async def examine_server(database: Database) -> list[Finding]:
    """Check what can be checked of a database without tables."""
    settings = await database.durability()
    return [
        *checkup.of_database(database.name, settings),
        *checkup.of_durability(database.name, settings),
    ]


async def examine_open(
    database: Database, down: Sequence[tuple[str, Route | Sender]]
) -> list[Finding]:
    """Count what waits for a person in each workspace; `down`, by noun, is what is known here."""
    names, letters, sends = await database.read(
        lambda tx: (
            workspaces.names_of_others(tx),
            dead_letters.open_by_workspace(tx),
            send_pages.need_person_by_workspace(tx),
        )
    )
    return open_work.of_open(
        OpenWork(
            dead_letters={names.get(id_, ""): many for id_, many in letters.items()},
            sends_need_person={names.get(id_, ""): many for id_, many in sends.items()},
            down=[(noun, _name(one, names)) for noun, one in down],
        )
    )


async def examine_waiting_mail(database: Database) -> list[Finding]:
    """Show the sources whose mail waits for its provider to hand it over."""
    now_ms = (await database.head()).now_ms
    before_ms = now_ms - mail_waiting.WAIT_MS_MAX
    known, names, waiting = await database.read(
        lambda tx: (
            origins.of_all(tx),
            workspaces.names_of_others(tx),
            pending_mails.waiting_fetches(tx, before_ms=before_ms),
        )
    )
    return mail_waiting.of_waiting(
        WaitingMail(
            source=one.source,
            name=_name(known[one.source], names) if one.source in known else None,
            mails=one.mails,
            wait_ms=now_ms - one.since_ms,
            error=one.error,
        )
        for one in waiting
    )


async def examine_sources(
    database: Database,
    clock: Clock,
    alarms: Sequence[tuple[str, AlarmKind]],
    variables: SourceVariables | None,
) -> list[Finding]:
    """Show alarms, by source, and what was refused in the last hour; `alarms` is what we know.

    `variables` are those of the server, for its advice.
    """
    since = clock.now_ms() // MINUTE_MS - HOUR_MINUTES

    def work(tx: Tx) -> _RecentRefusals:
        sums = refusals.sums(tx, minute=since, limit=REFUSALS_MAX)
        known = origins.of_all(tx)
        ids = {source.id for one in sums if (source := _source_now(known, one)) is not None}
        pulses = source_minutes.since(tx, sorted(ids), minute=since)
        names = workspaces.names_of_others(tx)
        return _RecentRefusals(known, sources.ids_in_file(tx), names, sums, pulses)

    seen = await database.read(work)
    known = seen.origins
    standing = [
        SourceAlarm(_name(known[id_], seen.names), kind) for id_, kind in alarms if id_ in known
    ]
    recent = [
        _recent_refusal(one, seen, variables)
        for one in seen.sums
        # Nothing can be done about a source that was removed.
        if one.source in known or one.source.startswith(UNKNOWN)
    ]
    return [*source_trouble.of_alarms(standing), *source_trouble.of_refusals(recent)]


async def examine_mx(
    database: Database, hosts: Callable[[str], Awaitable[list[str]]], *, hostname: str
) -> list[Finding]:
    """Ask for the MX records of the first mail domains, all at the same time."""
    known = await database.read(lambda tx: domains.list_all(tx, most=DOMAINS_MAX))

    async def look(domain: str) -> Finding:
        is_local = domain.endswith(".localhost")
        try:
            records = None if is_local else await hosts(domain)
        except UnavailableError:
            records = None
        return of_mx(domain, records, hostname=hostname)

    return list(await asyncio.gather(*(look(one.domain) for one in known)))


def _source_now(known: Origins, refused: RefusalSum) -> Source | None:
    """Give the source that was refused, or the one that has its name now."""
    return known.get(refused.source) or made_since(known, refused.source, refused.reason)


def _recent_refusal(
    refused: RefusalSum, seen: _RecentRefusals, variables: SourceVariables | None
) -> RecentRefusal:
    source = _source_now(seen.origins, refused)
    name = RecordName(refused.source) if source is None else _name(source, seen.names)
    id_ = refused.source if source is None else source.id
    is_known = id_ == refused.source and source is not None
    reason = refused.reason if is_known or source is None else NO_SOURCE_THEN
    return RecentRefusal(
        name=name,
        reason=reason,
        count=refused.times,
        advice=advice_by_name(seen.origins, seen.names, refused.source, reason)
        or advice_for(
            reason,
            source,
            is_in_file=id_ in seen.in_file,
            variables=variables,
            workspace=name.workspace,
        ),
        is_known=is_known,
        last_minute=refused.last_minute,
        pulses=seen.pulses.get(id_, ()),
    )


def _name(record: Source | Route | Sender, names: Mapping[str, str]) -> RecordName:
    """Name a record; one of the default workspace is known by its name alone."""
    return RecordName(record.name, names.get(record.workspace, ""))


def _state(source: Source, name: RecordName) -> SourceState:
    provider = providers.find(source.provider)
    return SourceState(
        name=name,
        provider=source.provider,
        horizon_s=None if provider is None else provider.longest_retry_s,
        opens=not source.is_unreadable,
        proven=not source.is_unreadable and _is_proven(source),
    )


def _is_proven(source: Source) -> bool:
    """Say whether the provider's signature, or a proof of the source's own, is demanded."""
    provider = providers.find(source.provider)
    signs = (
        provider is not None
        and source.is_signed
        and any(getattr(source, name) for name in provider.needs)
    )
    return signs or proof.has_proof(source)
