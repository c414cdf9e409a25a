"""Turn settings into the records of sources, routes and senders."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from mailonce.core.arrivals.source import SETTINGS as SOURCE_SETTINGS
from mailonce.core.arrivals.source import Source
from mailonce.core.deliveries.route import SETTINGS as ROUTE_SETTINGS
from mailonce.core.deliveries.route import Route, RouteSecret
from mailonce.core.fields import SettingFields
from mailonce.core.sends.sender import SETTINGS as SENDER_SETTINGS
from mailonce.core.sends.sender import Sender
from mailonce.errors import ConfigError
from mailonce.settings import RouteSettings, SenderSettings, SourceSettings, sentence_of
from mailonce.store.configuration.workspaces import DEFAULT


class MissingSettingError(ConfigError):
    """A record lacks a setting without which it cannot work, such as its secret."""


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


def changed_source(source: Source, changes: Mapping[str, Any]) -> SourceSettings:
    """Give a source's settings with some of them changed.

    Raises: ConfigError that names the setting which is wrong.
    """
    known = _settings_of(source, SOURCE_SETTINGS, SourceSettings)
    known |= {"provider": source.provider, "account": source.account}
    return _changed(SourceSettings, known, changes)


def changed_route(route: Route, changes: Mapping[str, Any]) -> RouteSettings:
    """Give a route's settings with some of them changed; without `secret` its secrets stay.

    Raises: ConfigError that names the setting which is wrong.
    """
    known = _settings_of(route, ROUTE_SETTINGS, RouteSettings)
    known |= {"kind": route.kind, "url": route.url}
    known.pop("secret", None)
    return _changed(RouteSettings, known, changes)


def _settings_of(record: object, wanted: SettingFields, model: type[BaseModel]) -> dict[str, Any]:
    return {
        name if name in model.model_fields else name.removesuffix("s"): list(value)
        if isinstance(value, tuple)
        else value
        for name, value in wanted.of(record).items()
    }


_Model = TypeVar("_Model", bound=BaseModel)


def _changed(model: type[_Model], known: dict[str, Any], changes: Mapping[str, Any]) -> _Model:
    merged = {**known, **changes}
    try:
        return model(**{name: value for name, value in merged.items() if value is not None})
    except ValidationError as error:
        raise ConfigError(sentence_of(error, model)) from error


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
