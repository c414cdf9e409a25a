"""What the settings say, as the records that the rest works with."""

from mailonce.clock import Clock
from mailonce.core.ids import public
from mailonce.core.route import Route, RouteSecret
from mailonce.core.source import Source
from mailonce.core.suppression import Suppress, suppress_of
from mailonce.settings import RouteSettings, Settings, SourceSettings
from mailonce.store.workspaces import DEFAULT as DEFAULT_WORKSPACE


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
        secrets=several(settings.secret),
        public_keys=several(settings.public_key),
        basic=several(settings.basic),
        tokens=several(settings.token),
        headers=several(settings.header),
        allow_ips=tuple(settings.allow_ips),
        topic_arns=tuple(settings.topic_arns),
        unproven=settings.unproven,
        unsigned=settings.unsigned,
        poison=settings.poison,
        poison_attempts=settings.poison_attempts,
        freshness_s=settings.freshness_s,
        silence_s=settings.silence_s,
        options=settings.options,
    )


def route_of(
    name: str,
    settings: RouteSettings,
    *,
    workspace: str = DEFAULT_WORKSPACE,
    id_: str | None = None,
) -> Route:
    """Make a route of its settings. A route of the file keeps its id over restarts."""
    return Route(
        id=id_ or f"rte_{name}",
        workspace=workspace,
        name=name,
        kind=settings.kind,
        url=settings.url,
        events=tuple(settings.events),
        sources=tuple(settings.sources),
        domains=tuple(domain.lower().lstrip("@.") for domain in settings.domains),
        tags=tuple(settings.tags),
        metadata=settings.metadata,
        expression=settings.expression,
        mapping=settings.mapping,
        secrets=tuple(RouteSecret(value) for value in several(settings.secret)),
        headers=settings.headers,
        waits_s=tuple(settings.waits_s),
        deadline_s=settings.deadline_s,
        blamed_attempts_max=settings.blamed_attempts_max,
        timeout_s=settings.timeout_s,
        concurrency=settings.concurrency,
        rate_per_s=settings.rate_per_s,
    )


def new_route_id(clock: Clock) -> str:
    """Give a global id to a route made over the API."""
    return public("rte", clock.new_id())


def new_source_id(clock: Clock) -> str:
    """Give a global id to a source made over the API."""
    return public("src", clock.new_id())


def several(value: str | list[str]) -> tuple[str, ...]:
    """Read a setting that takes one text or a list of them."""
    return (value,) if isinstance(value, str) else tuple(value)


def suppress_settings(settings: Settings) -> dict[str, Suppress]:
    """Say which events suppress, by workspace; '' stands for all others.

    Raises: ConfigError that names the word which means nothing.
    """
    found = {} if settings.suppress is None else {"": suppress_of(settings.suppress)}
    return found | {name: suppress_of(one.suppress) for name, one in settings.workspaces.items()}
