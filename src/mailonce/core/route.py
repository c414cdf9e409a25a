"""A route: a filter over events, and where what passes it goes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError

from mailonce.core.event import Event, EventType
from mailonce.errors import ConfigError

# First at once; then these waits, some three days in all.
WAITS_S = (5, 30, 120, 600, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400, 86_400)
DEADLINE_S = 4 * 86_400
# How often an answer that blames the request itself (400, 404 …) is asked for again.
BLAMED_ATTEMPTS_MAX = 4
EXPRESSION_CHARS_MAX = 1_000
MAPPING_DEPTH_MAX = 20
ANY = "*"

_NOTHING: Mapping[str, Any] = {}


class RouteKind(StrEnum):
    """How a route hands events over."""

    WEBHOOK = "webhook"
    HANDLER = "handler"
    POLL = "poll"


@dataclass(frozen=True, slots=True)
class RouteSecret:
    """`whsec_…` signs with HMAC, `whsk_…` with Ed25519; `until_ms` once it was rotated out."""

    value: str = field(repr=False)
    until_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Empty filters let everything through; several must all agree."""

    id: str
    workspace: str
    name: str
    kind: RouteKind = RouteKind.WEBHOOK
    url: str = ""
    events: tuple[str, ...] = (ANY,)
    # Ids of sources.
    sources: tuple[str, ...] = ()
    # Of the recipient's address; a domain stands for its subdomains, too.
    domains: tuple[str, ...] = ()
    # One of them is enough.
    tags: tuple[str, ...] = ()
    # All of them must be equal.
    metadata: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    # JMESPath over the event as it is sent; it passes where the result is true.
    expression: str = ""
    # The body to send instead: JSON whose texts of the form $.path are taken from the event.
    mapping: Any = None
    secrets: tuple[RouteSecret, ...] = ()
    # Further headers of each request, for an endpoint that wants a key of its own.
    headers: Mapping[str, str] = field(default_factory=lambda: _NOTHING, repr=False)
    waits_s: tuple[float, ...] = WAITS_S
    deadline_s: int = DEADLINE_S
    blamed_attempts_max: int = BLAMED_ATTEMPTS_MAX
    timeout_s: float = 15.0
    concurrency: int = 32
    # Attempts a second; None: as many as the concurrency allows.
    rate_per_s: float | None = None
    # Why it was switched off, by a person or by a 410; None while it is on.
    off: str | None = None

    @property
    def is_plain(self) -> bool:
        """Say whether it sends the event as it is, so that routes can share one body."""
        return self.mapping is None


def takes(route: Route, source: str, event: Event, shown: Callable[[], Mapping[str, Any]]) -> bool:
    """Say whether an event passes; `shown` gives it as it is sent, where somebody must look."""
    if ANY not in route.events and str(event.type) not in route.events:
        return False
    if route.sources and source not in route.sources:
        return False
    if route.domains and not _in_domains(event.recipient, route.domains):
        return False
    if route.tags and not set(route.tags).intersection(event.tags):
        return False
    if any(event.metadata.get(name) != value for name, value in route.metadata.items()):
        return False
    return not route.expression or _is_true(route.expression, shown())


def mapped(route: Route, shown: Mapping[str, Any]) -> Any:
    """Fill a route's own body from an event."""
    return _filled(route.mapping, shown)


def check_route(route: Route) -> None:
    """Check that a route can work.

    Raises: ConfigError, one sentence that names what is wrong and the fix.
    """
    known = {ANY, *(str(type_) for type_ in EventType)}
    strange = sorted(set(route.events) - known)
    if strange or not route.events:
        raise ConfigError(
            f"route {route.name!r}: `events` may hold {', '.join(sorted(known))}; "
            f"correct {strange[0] if strange else 'the empty list'!r}"
        )
    if route.kind is RouteKind.WEBHOOK and not route.url:
        raise ConfigError(f'route {route.name!r} needs `url`, or `kind = "poll"`')
    if route.expression:
        _compiled(route.expression)
    if _depth(route.mapping) > MAPPING_DEPTH_MAX:
        raise ConfigError(f"route {route.name!r}: `mapping` is too deep; flatten it")


def _in_domains(recipient: str, domains: tuple[str, ...]) -> bool:
    domain = recipient.rpartition("@")[2].lower()
    return any(domain == one or domain.endswith("." + one) for one in domains)


@lru_cache(maxsize=1024)
def _compiled(expression: str) -> Any:
    if len(expression) > EXPRESSION_CHARS_MAX:
        raise ConfigError(f"`expression` is longer than {EXPRESSION_CHARS_MAX}; shorten it")
    try:
        return jmespath.compile(expression)
    except (JMESPathError, RecursionError) as error:
        first = str(error).partition("\n")[0]
        raise ConfigError(f"`expression` is not JMESPath ({first}); correct it") from error


def _is_true(expression: str, shown: Mapping[str, Any]) -> bool:
    try:
        found = _compiled(expression).search(shown)
    except (JMESPathError, RecursionError, TypeError, ValueError):
        # A function was handed what it cannot take, such as null: that is no match.
        return False
    # JMESPath's own idea of truth: 0 is true, what is empty is not.
    return found is not None and found is not False and found not in ("", [], {})


def _filled(part: Any, shown: Mapping[str, Any]) -> Any:
    if isinstance(part, dict):
        return {name: _filled(inner, shown) for name, inner in part.items()}
    if isinstance(part, list):
        return [_filled(inner, shown) for inner in part]
    if isinstance(part, str) and part.startswith("$$"):
        return part[1:]
    if isinstance(part, str) and part.startswith("$."):
        return _at(shown, part[2:].split("."))
    return part


def _at(value: Any, path: list[str]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _depth(part: Any, depth: int = 0) -> int:
    if depth > MAPPING_DEPTH_MAX:
        return depth
    inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    return max([depth, *(_depth(one, depth + 1) for one in inner)])
