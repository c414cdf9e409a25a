"""Management: all that is managed; brings the settings file and handlers into the database."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from mailonce.core.bounds import NAME_PATTERN
from mailonce.core.deliveries.route import RouteKind, check_route
from mailonce.core.signatures.sealing import UNREADABLE
from mailonce.errors import ConfigError, MissingError
from mailonce.handlers import Handlers
from mailonce.manage.domains import Domains
from mailonce.manage.inboxes import Inboxes
from mailonce.manage.keys import ApiKeys
from mailonce.manage.managing import Parts
from mailonce.manage.records import APP, FILE, SEALED_BY_FILE, route_of, sender_of, source_of
from mailonce.manage.routes import Routes
from mailonce.manage.senders import Senders, check_sender
from mailonce.manage.sources import Sources, check_source
from mailonce.manage.workspaces import Workspaces
from mailonce.queue.purge_inboxes import InboxPurge
from mailonce.settings import InboxSettings, Settings
from mailonce.store.configuration import sources as stored_sources
from mailonce.telemetry import HANDLER_MISSING, SOURCE_NOT_IN_FILE, log

DAY_S = 86_400

ShowSecret = Callable[[str, str], None]


def _show_nowhere(what: str, secret: str) -> None:
    del what, secret


@dataclass(frozen=True, slots=True)
class Management:
    """What one process manages."""

    parts: Parts
    workspaces: Workspaces
    keys: ApiKeys
    sources: Sources
    routes: Routes
    senders: Senders
    domains: Domains
    inboxes: Inboxes


def build_management(parts: Parts, inboxes: InboxSettings, purge: InboxPurge) -> Management:
    domains = Domains(parts, inboxes)
    return Management(
        parts,
        Workspaces(parts),
        ApiKeys(parts),
        Sources(parts),
        Routes(parts),
        Senders(parts),
        domains,
        Inboxes(parts, inboxes, domains, purge),
    )


def check_records(settings: Settings) -> None:
    """Check the sources, routes and senders of the file, before anything is opened or made.

    Raises: ConfigError, in one sentence.
    """
    for part in ("sources", "routes", "senders"):
        for name in getattr(settings, part):
            if not re.fullmatch(NAME_PATTERN, name):
                raise ConfigError(
                    f"`{part}` has the name {name[:80]!r}; use letters, digits, '.', '_' and '-'"
                )
    for name, source in settings.sources.items():
        check_source(source_of(name, source), window_days=settings.window_days)
    for name, route in settings.routes.items():
        check_route(route_of(name, route), window_s=settings.window_days * DAY_S)
    for name, sender in settings.senders.items():
        check_sender(sender_of(name, sender))


async def apply_settings(
    manage: Management, settings: Settings, show_secret: ShowSecret = _show_nowhere
) -> None:
    """Bring the file's records into the database; ensure that there is an admin key.

    Each secret that is made is given to `show_secret` at once, with its name: it is shown once.
    """
    await manage.parts.configuration.reload()
    known = manage.parts.configuration.snapshot
    if known.opens_nothing:
        raise ConfigError(UNREADABLE)
    for name, wanted in settings.sources.items():
        source = source_of(name, wanted)
        if known.sources.get(source.id) != source:
            await manage.sources.put(source, origin=FILE)
    for name, route in settings.routes.items():
        origin = SEALED_BY_FILE if route.secret else FILE
        put = await manage.routes.put(route_of(name, route), origin=origin, signing=route.signing)
        if put.secret is not None:
            show_secret(f"secret of route {name}", put.secret)
    for name, sender in settings.senders.items():
        await manage.senders.put(sender_of(name, sender), origin=FILE)
    await manage.domains.apply_settings()
    admin_key = await manage.keys.ensure_admin(settings.admin_key)
    if admin_key is not None:
        show_secret("admin key", admin_key)


async def report_sources_left(manage: Management, settings: Settings) -> None:
    """Log the sources that a settings file made and that this one no longer has.

    They still take webhooks. They are not removed, because another process on this database may
    have a file with them, and a start with the wrong file would refuse what is never sent again.
    """
    made = await manage.parts.database.read(lambda tx: stored_sources.names_of_origin(tx, FILE))
    for id_, name in made.items():
        if name not in settings.sources:
            remedy = f"mailonce source remove {name}"
            log.warning(SOURCE_NOT_IN_FILE, source=id_, name=name, remedy=remedy)


async def apply_handlers(manage: Management, handlers: Handlers) -> None:
    """Bring the routes of handlers into the database: from then on they receive events.

    Raises: ConfigError or ClashError, in one sentence.
    """
    for handler in handlers:
        named = handler.route.workspace
        try:
            workspace = (await manage.workspaces.find(named)).id
        except MissingError as error:
            raise ConfigError(
                f"handler {handler.route.name!r}: there is no workspace {named!r}; make it first"
            ) from error
        await manage.routes.put(replace(handler.route, workspace=workspace), origin=APP)
    for route in manage.parts.configuration.snapshot.routes.values():
        if route.kind is RouteKind.HANDLER and handlers.find(route.id) is None:
            # Another process may have it; deliveries to a handler that no process has wait.
            log.warning(HANDLER_MISSING, route=route.id, name=route.name)
