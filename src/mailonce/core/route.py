"""A route: a filter over events, and where what passes it goes."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from math import prod
from typing import Any

import jmespath
import orjson
from jmespath.exceptions import JMESPathError

from mailonce.core.event import Event, EventType
from mailonce.errors import ConfigError

# First at once; then these waits, some three days in all.
WAITS_S = (5, 30, 120, 600, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400, 86_400)
DEADLINE_S = 4 * 86_400
# How often an answer that blames the request itself (400, 404 …) is asked for again.
BLAMED_ATTEMPTS_MAX = 4
EXPRESSION_CHARS_MAX = 1_000
# How many times an expression may repeat what it is given: [@, @] | [@, @] … doubles with each.
EXPRESSION_COPIES_MAX = 64
MAPPING_DEPTH_MAX = 20
MAPPING_BYTES_MAX = 20_000
MAPPING_PATHS_MAX = 100
HEADERS_MAX = 20
ANY = "*"

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_HEADER_VALUE = re.compile(r"[\t -~]{0,2000}")
_DOMAIN = re.compile(r"[^\s@.][^\s@]{0,252}")
# What we say ourselves, or what belongs to the connection.
_OUR_HEADERS = re.compile(
    r"webhook-.*|x-mailonce-.*|(x-)?idempotency-key|content-.*|host|connection|transfer-encoding"
    r"|upgrade|te|trailer|keep-alive|expect",
    re.IGNORECASE,
)

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
    if not all(_same(event.metadata.get(name), value) for name, value in route.metadata.items()):
        return False
    return not route.expression or _is_true(route.expression, shown())


def mapped(route: Route, shown: Mapping[str, Any]) -> Any:
    """Fill a route's own body from an event."""
    return _filled(route.mapping, shown)


def check_route(route: Route, *, window_s: int) -> None:
    """Check that a route can work.

    Raises: ConfigError, one sentence that names what is wrong and the fix.
    """
    trouble = next(_troubles(route, window_s), None)
    if trouble is not None:
        raise ConfigError(f"route {route.name!r}: {trouble}")


def _troubles(route: Route, window_s: int) -> Iterator[str]:
    known = {ANY, *(str(type_) for type_ in EventType)}
    strange = sorted(set(route.events) - known)
    if strange or not route.events:
        wrong = repr(strange[0]) if strange else "the empty list"
        yield f"`events` may hold {', '.join(sorted(known))}; correct {wrong}"
    if route.kind is RouteKind.WEBHOOK and not route.url:
        yield 'it needs `url`, or `kind = "poll"`'
    for domain in route.domains:
        if not _DOMAIN.fullmatch(domain):
            yield f"`domains` has {domain!r}; write a domain such as example.com"
    if route.expression:
        trouble = _trouble_of_expression(route.expression)
        if trouble is not None:
            yield trouble
    if route.mapping is not None:
        yield from _troubles_of_mapping(route.mapping)
    yield from _troubles_of_headers(route.headers)
    if route.deadline_s > window_s:
        yield f"`deadline_s` is longer than the window ({window_s} s); shorten it"


def _troubles_of_headers(headers: Mapping[str, str]) -> Iterator[str]:
    if len(headers) > HEADERS_MAX:
        yield f"`headers` has more than {HEADERS_MAX}; take some away"
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            yield f"`headers` has {name!r}, which cannot stand in a request; correct it"
        if _OUR_HEADERS.fullmatch(name):
            yield f"`headers` has {name!r}, which is ours to say; take it away"


def _trouble_of_expression(expression: str) -> str | None:
    if len(expression) > EXPRESSION_CHARS_MAX:
        return f"`expression` is longer than {EXPRESSION_CHARS_MAX} characters; shorten it"
    try:
        copies = _copies(_compiled(expression).parsed)
    except (JMESPathError, RecursionError, ValueError) as error:
        first = str(error).partition("\n")[0][:200]
        return f"`expression` is not JMESPath ({first}); correct it"
    if copies > EXPRESSION_COPIES_MAX:
        return "`expression` repeats what it is given too often; use fewer […, …] and {…}"
    return None


def _troubles_of_mapping(mapping: Any) -> Iterator[str]:
    if _depth(mapping) > MAPPING_DEPTH_MAX:
        yield "`mapping` is too deep; flatten it"
        return
    try:
        size = len(orjson.dumps(mapping))
    except TypeError:
        yield "`mapping` has a value that JSON cannot hold; correct it"
        return
    if size > MAPPING_BYTES_MAX or _paths(mapping) > MAPPING_PATHS_MAX:
        yield (
            f"`mapping` is larger than {MAPPING_BYTES_MAX} bytes or has more than "
            f"{MAPPING_PATHS_MAX} paths; shorten it"
        )


def _in_domains(recipient: str, domains: tuple[str, ...]) -> bool:
    _, at, domain = recipient.lower().rpartition("@")
    return bool(at) and any(domain == one or domain.endswith("." + one) for one in domains)


def _same(found: Any, wanted: Any) -> bool:
    # To Python true is 1; to JSON it is not.
    return found == wanted and isinstance(found, bool) == isinstance(wanted, bool)


@lru_cache(maxsize=1024)
def _compiled(expression: str) -> Any:
    return jmespath.compile(expression)


def _copies(node: Any) -> int:
    """Say how often, at most, an expression repeats its input in what it makes."""
    children = node["children"]
    own = len(children) if node["type"] in {"multi_select_list", "multi_select_dict"} else 1
    inner = prod(_copies(child) for child in children if isinstance(child, dict))
    return min(max(own, 1) * inner, EXPRESSION_COPIES_MAX + 1)


def _is_true(expression: str, shown: Mapping[str, Any]) -> bool:
    try:
        found = _compiled(expression).search(shown)
    except (JMESPathError, RecursionError, TypeError, ValueError, ArithmeticError, LookupError):
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
        if isinstance(value, Mapping):
            value = value.get(name)
        elif isinstance(value, list) and name.isascii() and name.isdecimal():
            value = value[int(name[:9])] if int(name[:9]) < len(value) else None
        else:
            value = None
    return value


def _paths(part: Any) -> int:
    if isinstance(part, str):
        return part.startswith("$.")
    return sum(_paths(one) for one in _inner(part))


def _depth(part: Any, depth: int = 0) -> int:
    if depth > MAPPING_DEPTH_MAX:
        return depth
    return max([depth, *(_depth(one, depth + 1) for one in _inner(part))])


def _inner(part: Any) -> list[Any]:
    if isinstance(part, dict):
        return list(part.values())
    return part if isinstance(part, list) else []
