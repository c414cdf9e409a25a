"""The settings file: its sources, routes and senders are brought into the database, whole or not.

All of it is one transaction, so that a file with one wrong record changes nothing. What a file
made and this one no longer has is switched off rather than removed: a file that was read by
mistake costs nothing, since providers are asked to send again later, deliveries and mails wait,
and the next reading of the right file switches everything on again.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import ModuleType
from typing import Any

from mailonce.clock import Clock
from mailonce.core.health.checkup import REMOVE
from mailonce.core.record_origin import FILE, NOT_IN_FILE, OF_FILE, SEALED_BY_FILE
from mailonce.core.signatures.sealing import UNREADABLE, Sealer
from mailonce.errors import ConfigError
from mailonce.manage.audit import SETTINGS_FILE, entry_of
from mailonce.manage.file_faults import faults_of_records
from mailonce.manage.management import Management
from mailonce.manage.master_key import LOST_KEY_ADVICE
from mailonce.manage.records import route_of, sender_of, source_of
from mailonce.manage.routes import PutRoute
from mailonce.settings import Settings
from mailonce.store import audit
from mailonce.store.audit import AuditEntry
from mailonce.store.configuration import locks, routes, senders, sources
from mailonce.store.configuration.workspaces import DEFAULT as DEFAULT_WORKSPACE
from mailonce.store.dialects.contract import Tx
from mailonce.telemetry import NOT_IN_FILE_OFF, SECRETS_UNREADABLE, log

# What the file does to a record, as the operations of the API that would do the same.
_MAKE = "POST /v1/{0}s"
_CHANGE = "PUT /v1/{0}s/{{{0}_id}}"
_SWITCH_OFF = "POST /v1/{0}s/{{{0}_id}}/off"
_RELOAD = "POST /v1/reloads"

ShowSecret = Callable[[str, str], None]
_Work = Callable[[Tx], tuple[Any, bool]]


class Noun(StrEnum):
    """What a settings file has records of."""

    SOURCE = "source"
    ROUTE = "route"
    SENDER = "sender"


_TABLES: dict[Noun, ModuleType] = {
    Noun.SOURCE: sources,
    Noun.ROUTE: routes,
    Noun.SENDER: senders,
}


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A record that came from a settings file."""

    noun: Noun
    id: str
    name: str

    def __str__(self) -> str:
        return f"{self.noun} {self.name}"

    @property
    def fields(self) -> dict[str, str]:
        """What a log line says of it."""
        return {str(self.noun): self.id, "name": self.name}


@dataclass(frozen=True, slots=True)
class AppliedFile:
    """What reading a settings file changed; `off` lists all that is off because no file has it.

    `unreadable` stayed as they are: no master key of ours opens their secrets.
    """

    changed: tuple[FileRecord, ...] = ()
    off: tuple[FileRecord, ...] = ()
    unreadable: tuple[FileRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class ReloadReport:
    """What reading the settings again did; all are names."""

    # Settings that are in force now, and records that were made or changed again.
    changed: tuple[str, ...]
    # Settings that wait for a restart.
    restart: tuple[str, ...]
    # Sources, routes and senders that are off because the file no longer has them.
    off: tuple[str, ...]
    # Variables of the server that give settings: they were not read again.
    variables: tuple[str, ...] = ()
    # Those of them that give something else than the file.
    over_file: tuple[str, ...] = ()


def _show_nowhere(what: str, secret: str) -> None:
    del what, secret


def check_records(settings: Settings) -> None:
    """Check the sources, routes and senders of the file, before anything is opened or made.

    Raises: ConfigError, in one sentence.
    """
    fault = next(faults_of_records(settings), None)
    if fault is not None:
        raise fault


async def apply_settings(
    manage: Management,
    settings: Settings,
    show_secret: ShowSecret = _show_nowhere,
    *,
    is_key_lost: bool = False,
    allow_hosts: Iterable[str] | None = None,
    reloaded: Sequence[str] = (),
) -> AppliedFile:
    """Bring the file's records into the database; ensure that there is an admin key.

    What the file no longer has is switched off. `allow_hosts` are those
    that routes will be allowed to reach; default: those that they may now. `reloaded` names further
    settings that a reload changes, for the audit log. Each secret that is made
    is given to `show_secret` once it is stored, with its name: it is shown once.
    `is_key_lost`: secrets that no master key opens are replaced by those of the file.

    Raises: ConfigError or ClashError, in one sentence; then no record has changed.
    """
    await manage.parts.configuration.reload()
    if manage.parts.configuration.snapshot.opens_nothing and not is_key_lost:
        raise ConfigError(f"{UNREADABLE}; {LOST_KEY_ADVICE}")
    works = list(_works(manage, settings, allow_hosts))
    domains = manage.domains.prepare()
    clock, sealer = manage.parts.clock, manage.parts.sealer

    def work(tx: Tx) -> tuple[AppliedFile, list[PutRoute]]:
        locks.take(tx, locks.CONFIGURATION)
        changed, puts, unreadable = [], [], []
        for record, put in works:
            replaces = is_key_lost and _has_secrets(settings, record)
            if not replaces and _is_unreadable(tx, record, sealer):
                unreadable.append(record)
                continue
            is_new = _TABLES[record.noun].origin_of(tx, record.id) is None
            stored, is_changed = put(tx)
            if is_changed:
                changed.append(record)
                audit.put(tx, _entry(clock, record, _MAKE if is_new else _CHANGE))
            if isinstance(stored, PutRoute):
                puts.append(stored)
        domains(tx)
        if reloaded:
            audit.put(tx, _reload_entry(clock, reloaded))
        off = list(_switch_off(tx, settings, clock)) if settings.switches_off else []
        return AppliedFile(tuple(changed), tuple(off), tuple(unreadable)), puts

    applied, puts = await manage.parts.database.write(work)
    for made in puts:
        if made.secret is not None:
            show_secret(f"secret of route {made.route.name}", made.secret)
    if await manage.parts.configuration.refresh():
        manage.parts.configuration.notify()
    admin_key = await manage.keys.ensure_admin(settings.admin_key)
    if admin_key is not None:
        show_secret("admin key", admin_key)
    _log(applied)
    return applied


def _log(applied: AppliedFile) -> None:
    for record in applied.unreadable:
        log.error(SECRETS_UNREADABLE, **record.fields, remedy=UNREADABLE)
    for record in applied.off:
        remedy = f"put it back, or run `mailonce {REMOVE[record.noun].format(record.name)}`"
        log.warning(NOT_IN_FILE_OFF, **record.fields, remedy=remedy)


def _is_unreadable(tx: Tx, record: FileRecord, sealer: Sealer) -> bool:
    """Say whether no master key of ours opens a record that stands already.

    It stays as it is: sealed with our key, it would be unreadable to processes that have the other.
    """
    known = _TABLES[record.noun].get(tx, record.id, sealer)
    return known is not None and known.is_unreadable


def _has_secrets(settings: Settings, record: FileRecord) -> bool:
    """Say whether the file has all secrets of a record; those of a route may have been made."""
    return record.noun is not Noun.ROUTE or bool(settings.routes[record.name].secret)


def _reload_entry(clock: Clock, names: Sequence[str]) -> AuditEntry:
    """Write down which settings a reload changes; without a request a signal asked for it."""
    entry = audit.ACTING.get() or entry_of(clock, DEFAULT_WORKSPACE, SETTINGS_FILE, _RELOAD, "")
    entry.object = ", ".join(names)[: audit.OBJECT_CHARS_MAX]
    return entry


def _entry(clock: Clock, record: FileRecord, operation: str) -> AuditEntry:
    """Write down what the file changed, as if somebody had asked for it."""
    what = operation.format(record.noun.value)
    return entry_of(clock, DEFAULT_WORKSPACE, SETTINGS_FILE, what, record.name)


def _works(
    manage: Management, settings: Settings, allow_hosts: Iterable[str] | None
) -> Iterator[tuple[FileRecord, _Work]]:
    for name, wanted in settings.sources.items():
        source = source_of(name, wanted)
        put_source = manage.sources.prepare(source, origin=FILE)
        yield FileRecord(Noun.SOURCE, source.id, name), put_source
    for name, given in settings.routes.items():
        route = route_of(name, given)
        origin = SEALED_BY_FILE if given.secret else FILE
        put_route = manage.routes.prepare(
            route, origin=origin, signing=given.signing, allow_hosts=allow_hosts
        )
        yield FileRecord(Noun.ROUTE, route.id, name), put_route
    of_file = [sender_of(name, one) for name, one in settings.senders.items()]
    for sender in of_file:
        put_sender = manage.senders.prepare(sender, origin=FILE, beside=of_file)
        yield FileRecord(Noun.SENDER, sender.id, sender.name), put_sender


def _switch_off(tx: Tx, settings: Settings, clock: Clock) -> Iterator[FileRecord]:
    """Switch off what a file made and this one does not have; give all that is off for that."""
    now_ms = clock.now_ms()
    for noun, names in (
        (Noun.SOURCE, settings.sources),
        (Noun.ROUTE, settings.routes),
        (Noun.SENDER, settings.senders),
    ):
        table = _TABLES[noun]
        for id_, name in table.names_of_origin(tx, OF_FILE).items():
            if name not in names:
                record = FileRecord(noun, id_, name)
                if table.switch(tx, id_, off=NOT_IN_FILE, now_ms=now_ms):
                    audit.put(tx, _entry(clock, record, _SWITCH_OFF))
                yield record
