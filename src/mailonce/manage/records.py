"""Turn settings into the records of sources, routes and senders."""

from typing import Any

from pydantic import BaseModel

from mailonce.core.arrivals.source import SETTINGS as SOURCE_SETTINGS
from mailonce.core.arrivals.source import Source
from mailonce.core.deliveries.route import SETTINGS as ROUTE_SETTINGS
from mailonce.core.deliveries.route import Route, RouteSecret
from mailonce.core.fields import SettingFields
from mailonce.core.sends.sender import SETTINGS as SENDER_SETTINGS
from mailonce.core.sends.sender import Sender
from mailonce.settings import RouteSettings, SenderSettings, SourceSettings
from mailonce.store.configuration.workspaces import DEFAULT

# Where a record's settings come from; a secret that stands in the file is changed there.
API = "api"
FILE = "file"
APP = "app"
SEALED_BY_FILE = "file, and its secret"


def source_of(
    name: str, settings: SourceSettings, *, workspace: str = DEFAULT, id_: str | None = None
) -> Source:
    """Make a source of its settings. A source of the file keeps its id over restarts."""
    values = _values(settings, SOURCE_SETTINGS)
    values |= {"provider": settings.provider, "account": settings.account or name}
    return Source(id=id_ or f"src_{name}", workspace=workspace, name=name, **values)


def route_of(
    name: str, settings: RouteSettings, *, workspace: str = DEFAULT, id_: str | None = None
) -> Route:
    """Make a route of its settings. A route of the file keeps its id over restarts."""
    values = _values(settings, ROUTE_SETTINGS)
    values["domains"] = tuple(domain.lower().lstrip("@.") for domain in settings.domains)
    values["secrets"] = tuple(RouteSecret(value) for value in values["secrets"])
    values |= {"kind": settings.kind, "url": settings.url}
    return Route(id=id_ or f"rte_{name}", workspace=workspace, name=name, **values)


def sender_of(
    name: str, settings: SenderSettings, *, workspace: str = DEFAULT, id_: str | None = None
) -> Sender:
    """Make a sender of its settings. A sender of the file keeps its id over restarts."""
    values = _values(settings, SENDER_SETTINGS)
    values["provider"] = settings.provider
    return Sender(id=id_ or f"snr_{name}", workspace=workspace, name=name, **values)


def several(value: str | list[str]) -> tuple[str, ...]:
    """Read a setting that takes one text or a list of them."""
    return (value,) if isinstance(value, str) else tuple(value)


def _values(settings: BaseModel, wanted: SettingFields) -> dict[str, Any]:
    """Read a record's settings by their names; one that takes a value or several is singular."""
    known = type(settings).model_fields
    values = {
        name: getattr(settings, name if name in known else name.removesuffix("s"))
        for name in wanted.names
    }
    return values | {name: several(values[name]) for name in wanted.lists}
