"""Management: all that is managed; brings handlers into the database."""

from dataclasses import dataclass, replace

from mailonce.core.deliveries.route import RouteKind
from mailonce.core.record_origin import APP
from mailonce.errors import ConfigError, MissingError
from mailonce.handlers import Handlers
from mailonce.manage.domains import Domains
from mailonce.manage.inboxes import Inboxes, build_lookups
from mailonce.manage.keys import ApiKeys
from mailonce.manage.managing import Parts
from mailonce.manage.routes import Routes
from mailonce.manage.senders import Senders
from mailonce.manage.sources import Sources
from mailonce.manage.workspaces import Workspaces
from mailonce.queue.purge_inboxes import InboxPurge
from mailonce.settings import InboxSettings
from mailonce.telemetry import HANDLER_MISSING, log


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
        Inboxes(parts, inboxes, domains, purge, build_lookups(parts.database)),
    )


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
