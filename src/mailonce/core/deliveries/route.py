"""A route: a filter over events, and the target of those that pass."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

import orjson

from mailonce.core import bounds
from mailonce.core.deliveries import expression
from mailonce.core.deliveries.mail_filter import takes_mail
from mailonce.core.events.event import Event, EventType
from mailonce.core.fields import setting_fields
from mailonce.core.work.retry_rule import WorkRule
from mailonce.errors import ConfigError

# First at once; then these waits, some three days in all.
WAITS_S = (5, 30, 120, 600, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400, 86_400)
DEADLINE_S = 4 * 86_400
# Attempts in all where the answer blames the request itself (400, 404 …): the same bytes would
# only be blamed again.
BLAMED_ATTEMPTS_MAX = 1
MAPPING_DEPTH_MAX = 20
MAPPING_BYTES_MAX = 20_000
MAPPING_PATHS_MAX = 100
# Of what a mapping makes of one event: a hundred paths may each take all of its metadata.
MAPPED_BYTES_MAX = 256 << 10
HEADERS_MAX = 20
HEADERS_CHARS_MAX = 8_000
SECRETS_MAX = 5
WAITS_MAX = 50
METADATA_MAX = 20
METADATA_BYTES_MAX = 4_000
URL_CHARS_MAX = 2_048
ANY = "*"

_HEADER_VALUE = re.compile(r"[\t -~]{0,2000}")
_DOMAIN = re.compile(r"[^\s@.][^\s@]{0,252}")
# Headers that mailonce sets itself, or that belong to the connection.
_OUR_HEADERS = re.compile(
    r"webhook-.*|x-mailonce-.*|(x-)?idempotency-key|content-.*|host|connection|transfer-encoding"
    r"|upgrade|te|trailer|keep-alive|expect",
    re.IGNORECASE,
)

_NOTHING: Mapping[str, Any] = {}
# By field: how many values, and how many characters in each.
_LISTS: Mapping[str, tuple[int, int]] = {
    "events": (50, 50),
    "sources": (200, 200),
    "domains": (500, 253),
    "tags": (100, 200),
    "senders": (200, 320),
    "subject_contains": (50, 200),
    "inboxes": (500, 320),
}
# An attempt of a delivery always ends within its lease.
_NOT_OF_ROUTES = ("reserved", "attempt_s_max")
_OF_THE_RULE = tuple(one.name for one in fields(WorkRule) if one.name not in _NOT_OF_ROUTES)


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
    # Of mail that came in; see `mail_filter.py`.
    senders: tuple[str, ...] = ()
    subject_contains: tuple[str, ...] = ()
    inboxes: tuple[str, ...] = ()
    has_attachments: bool | None = None
    # How much of a mail's attachments stands in the body itself.
    inline_bytes_max: int = 0
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
    # No master key of this process opens its secrets: its events are recorded, others deliver them.
    is_unreadable: bool = False

    @property
    def rule(self) -> WorkRule:
        """How its deliveries are tried; made anew each time, so keep it where it is hot."""
        return WorkRule(**{name: getattr(self, name) for name in _OF_THE_RULE})

    @property
    def is_plain(self) -> bool:
        """Say whether it sends the event as it is, so that routes can share one body."""
        return self.mapping is None

    @property
    def may_map_mail(self) -> bool:
        """Say whether its own bodies may hold what a mail says, in words that nobody knows."""
        words = {ANY, str(EventType.INBOUND)}
        return not self.is_plain and not words.isdisjoint(self.events)


# All but who it is, how it hands over, and its state.
SETTINGS = setting_fields(
    Route, but=("id", "workspace", "name", "kind", "url", "off", "is_unreadable")
)


@dataclass(frozen=True, slots=True)
class Unroutable:
    """A route's own expression or mapping cannot deal with an event, for this reason."""

    reason: str


def takes(
    route: Route,
    source: str,
    event: Event,
    shown: Callable[[], Mapping[str, Any]],
    *,
    steps_max: int = expression.STEPS_MAX,
) -> bool | Unroutable:
    """Say whether an event passes; `shown` gives it as it is sent, where somebody must look.

    `steps_max` is what its expression may spend on it.
    """
    if ANY not in route.events and str(event.type) not in route.events:
        return False
    if route.sources and source not in route.sources:
        return False
    if route.domains and not _in_domains(event.recipient, route.domains):
        return False
    if route.tags and not set(route.tags).intersection(event.tags):
        return False
    if not takes_mail(route, event.message):
        return False
    if not all(_same(event.metadata.get(name), value) for name, value in route.metadata.items()):
        return False
    if not route.expression:
        return True
    try:
        return expression.is_true(route.expression, shown(), steps_max=steps_max)
    except expression.TooManyStepsError:
        return Unroutable(
            f"the route's expression takes more than {steps_max} steps for this event; "
            "make it simpler, then reprocess the event"
        )


def mapped_body(route: Route, shown: Mapping[str, Any]) -> bytes | Unroutable:
    """Fill a route's own body from an event, and freeze it."""
    try:
        body = orjson.dumps(_filled(route.mapping, shown, [MAPPED_BYTES_MAX]))
    except _TooLargeError:
        body = None
    if body is None or len(body) > MAPPED_BYTES_MAX:
        return Unroutable(
            f"the route's mapping makes more than {MAPPED_BYTES_MAX} bytes of this event; "
            "take fewer fields, then reprocess the event"
        )
    return body


def check_route(route: Route, *, window_s: int) -> None:
    """Check that a route can work.

    Raises: ConfigError, one sentence that names what is wrong and the fix.
    """
    trouble = next(_troubles(route, window_s), None)
    if trouble is not None:
        raise ConfigError(f"route {route.name!r}: {trouble}")


def _troubles(route: Route, window_s: int) -> Iterator[str]:
    yield from _troubles_of_size(route)
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
        trouble = expression.trouble_of(route.expression)
        if trouble is not None:
            yield trouble
    if route.mapping is not None:
        yield from _troubles_of_mapping(route.mapping)
    yield from _troubles_of_headers(route.headers)
    if route.deadline_s > window_s:
        yield f"`deadline_s` is longer than the window ({window_s} s); shorten it"


def _troubles_of_size(route: Route) -> Iterator[str]:
    """Every route looks at every event of its workspace, so what it looks for is bounded."""
    yield from bounds.of_text("name", route.name, bounds.NAME_CHARS_MAX)
    yield from bounds.of_text("url", route.url, URL_CHARS_MAX)
    yield from bounds.of_lists(route, _LISTS)
    if len(route.metadata) > METADATA_MAX:
        yield f"`metadata` has more than {METADATA_MAX} fields; take some away"
    yield from bounds.of_json("metadata", dict(route.metadata), METADATA_BYTES_MAX)
    if len(route.secrets) > SECRETS_MAX:
        yield f"`secret` has more than {SECRETS_MAX} values, and each signs; take old ones away"
    if len(route.waits_s) > WAITS_MAX:
        yield f"`waits_s` has more than {WAITS_MAX} waits; take some away"
    if sum(len(name) + len(value) for name, value in route.headers.items()) > HEADERS_CHARS_MAX:
        yield f"`headers` have more than {HEADERS_CHARS_MAX} characters; shorten them"


def _troubles_of_headers(headers: Mapping[str, str]) -> Iterator[str]:
    if len(headers) > HEADERS_MAX:
        yield f"`headers` has more than {HEADERS_MAX}; take some away"
    for name, value in headers.items():
        if not bounds.HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            yield f"`headers` has {name!r}, which is no valid header; correct it"
        if _OUR_HEADERS.fullmatch(name):
            yield f"`headers` has {name!r}, which mailonce sets itself; take it away"


def _troubles_of_mapping(mapping: Any) -> Iterator[str]:
    if bounds.is_deeper(mapping, MAPPING_DEPTH_MAX):
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


def _same(value: Any, wanted: Any) -> bool:
    # To Python true is 1; to JSON it is not.
    return value == wanted and isinstance(value, bool) == isinstance(wanted, bool)


class _TooLargeError(Exception):
    """A mapping makes a body that is too large to send."""


def _filled(part: Any, shown: Mapping[str, Any], left: list[int]) -> Any:
    """Fill a mapping; `left` holds how many more bytes of the event may be copied into it."""
    if isinstance(part, dict):
        return {name: _filled(inner, shown, left) for name, inner in part.items()}
    if isinstance(part, list):
        return [_filled(inner, shown, left) for inner in part]
    if isinstance(part, str) and part.startswith("$$"):
        return part[1:]
    if isinstance(part, str) and part.startswith("$."):
        value = _at(shown, part[2:].split("."))
        left[0] -= len(value) if isinstance(value, str) else len(orjson.dumps(value))
        if left[0] < 0:
            raise _TooLargeError
        return value
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
    return sum(_paths(one) for one in bounds.inner(part))
