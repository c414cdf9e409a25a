"""Handlers: the user's own code, run for each event that passes a filter.

    from mailonce import Handlers, Permanent

    handlers = Handlers()

    @handlers.on("bounced", "complained", name="crm")
    def note(event, tx):
        tx.execute(text("INSERT INTO notes VALUES (:address)"), {"address": event["recipient"]})

A plain function is given the transaction that also completes the delivery: its rows and "done"
become true together, once. A coroutine is given the event alone and runs at least once.
"""

import inspect
import re
import sys
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from types import MappingProxyType
from typing import Any, TypeVar

from mailonce.core.deliveries.route import ANY, DEADLINE_S, WAITS_S, Route, RouteKind
from mailonce.errors import ConfigError

# The event as `mailonce.event/1` has it.
HandledEvent = dict[str, Any]
InTransaction = Callable[[HandledEvent, Any], object]
AtLeastOnce = Callable[[HandledEvent], Awaitable[object]]

F = TypeVar("F", bound=Callable[..., Any])

LIMIT_S = 5.0
LIMIT_S_MAX = 30.0
CONCURRENCY = 4

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Permanent(Exception):  # noqa: N818 - users raise it as a word, not as an error of theirs
    """Raised by a handler: trying again is pointless, so the event becomes a dead letter."""


@dataclass(frozen=True, slots=True)
class Handler:
    """A function and the route that brings it events; one of the two functions is there."""

    route: Route
    in_transaction: InTransaction | None = None
    at_least_once: AtLeastOnce | None = None


class Handlers:
    """A register of handlers; `mailonce serve --app module:handlers` runs them."""

    def __init__(self) -> None:
        self._by_id: dict[str, Handler] = {}

    def on(
        self,
        *events: str,
        name: str | None = None,
        workspace: str = "default",
        sources: Sequence[str] = (),
        domains: Sequence[str] = (),
        tags: Sequence[str] = (),
        metadata: Mapping[str, Any] = _NOTHING,
        expression: str = "",
        waits_s: Sequence[float] = WAITS_S,
        deadline_s: int = DEADLINE_S,
        limit_s: float = LIMIT_S,
        concurrency: int = CONCURRENCY,
    ) -> Callable[[F], F]:
        """Register a function for these types of event; for all, where none is named.

        Its `name` (default: the function's) is what its progress is kept under: renaming makes
        another handler. The filters are those of a route. `limit_s` is how long one run may take.
        Raises: ConfigError, one sentence.
        """
        if any(callable(event) for event in events):
            raise ConfigError(
                '`on` was given a function; write `@handlers.on()` or `@handlers.on("bounced")`'
            )
        _check_events(events)
        _check_texts(name=name or "", workspace=workspace, expression=expression)
        _check_lists(sources=sources, domains=domains, tags=tags)
        _check_numbers(deadline_s=deadline_s, limit_s=limit_s, concurrency=concurrency)
        if isinstance(waits_s, str) or not _are(waits_s, _is_number):
            raise ConfigError(
                f"`waits_s` is {waits_s!r}; give numbers of seconds, one for each further try, "
                "such as `(5, 30)`"
            )
        if not isinstance(metadata, Mapping):
            raise ConfigError(f"`metadata` is {metadata!r}; give a dict of what must be equal")

        def register(function: F) -> F:
            called = str(name or getattr(function, "__name__", ""))
            if not _NAME.fullmatch(called):
                raise ConfigError(
                    f"handler {called[:40]!r}: give it a `name` of up to 100 letters, "
                    "digits, dots, dashes and underscores"
                )
            if not 0 < limit_s <= LIMIT_S_MAX:
                raise ConfigError(
                    f"handler {called!r}: `limit_s` is {limit_s}; use up to {LIMIT_S_MAX:g} seconds"
                )
            route = Route(
                id=handler_id(workspace, called),
                workspace=workspace,
                name=called,
                kind=RouteKind.HANDLER,
                events=events or (ANY,),
                sources=tuple(sources),
                domains=tuple(domains),
                tags=tuple(tags),
                metadata=dict(metadata),
                expression=expression,
                waits_s=tuple(waits_s),
                deadline_s=deadline_s,
                timeout_s=limit_s,
                concurrency=concurrency,
            )
            if route.id in self._by_id:
                raise ConfigError(f"there are two handlers {called!r}; give one another `name`")
            self._by_id[route.id] = _handler(route, function)
            return function

        return register

    def __iter__(self) -> Iterator[Handler]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def find(self, route_id: str) -> Handler | None:
        """Find the handler that a route brings events to."""
        return self._by_id.get(route_id)


def handler_id(workspace: str, name: str) -> str:
    """Make the id of a handler's route: the same in every process and after every start."""
    return "rte_" + sha256(f"handler|{workspace}|{name}".encode()).hexdigest()[:32]


def load_handlers(spec: str) -> Handlers:
    """Import the handlers that `module:name` names; without a name it is `handlers`.

    A module in the working directory is found, as with other servers.
    Raises: ConfigError, one sentence.
    """
    module, _, name = spec.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        imported = import_module(module)
    except Exception as error:
        raise ConfigError(
            f"`app` is {spec!r}, and {module!r} cannot be imported "
            f"({type(error).__name__}: {error}); correct it"
        ) from error
    handlers = getattr(imported, name or "handlers", None)
    if not isinstance(handlers, Handlers):
        raise ConfigError(
            f"`app` is {spec!r}, but there is no Handlers object of that name; "
            "write module:name, such as shop.mail:handlers"
        )
    return handlers


def check_result(result: object) -> None:
    """See that a handler did its work: nothing of a generator or a coroutine has run so far.

    Raises: ConfigError, one sentence.
    """
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        gave = "a generator, of which nothing has run: go through it in the handler"
    elif inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            # Else Python warns of it in words that name no handler.
            result.close()
        gave = "a coroutine or task, which nobody awaits: write `async def`, and await it there"
    else:
        return
    raise ConfigError(f"the handler gave {gave}")


def _check_events(events: tuple[object, ...]) -> None:
    if _are(events, _is_text):
        return
    named = [one for event in events for one in (event if isinstance(event, list) else [event])]
    shown = ", ".join(f'"{one}"' for one in named if isinstance(one, str)) or '"bounced"'
    raise ConfigError(f"each event is a text of its own; write `@handlers.on({shown})`")


def _check_texts(**given: object) -> None:
    for name, value in given.items():
        if not isinstance(value, str):
            raise ConfigError(f"`{name}` is {value!r}; give a text")


def _check_lists(**given: object) -> None:
    for name, value in given.items():
        # A text is a sequence of texts, too: of its letters.
        if isinstance(value, str) or not _are(value, _is_text):
            shown = value if isinstance(value, str) else "…"
            raise ConfigError(f'`{name}` is {value!r}; give a list of texts, such as `["{shown}"]`')


def _check_numbers(**given: object) -> None:
    for name, value in given.items():
        if not _is_number(value):
            raise ConfigError(f"`{name}` is {value!r}; give a number")


def _are(values: object, is_right: Callable[[object], bool]) -> bool:
    return isinstance(values, Collection) and all(is_right(one) for one in values)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_generator(function: Callable[..., Any]) -> bool:
    """Say whether a function has a `yield`, or the object that stands for one."""
    called = (function, type(function).__call__)
    return any(
        inspect.isgeneratorfunction(one) or inspect.isasyncgenfunction(one) for one in called
    )


def _handler(route: Route, function: Callable[..., Any]) -> Handler:
    if _is_generator(function):
        raise ConfigError(
            f"handler {route.name!r} is a generator, and nothing of it would run; write it "
            "without `yield`"
        )
    wants = 1 if inspect.iscoroutinefunction(function) else 2
    try:
        inspect.signature(function).bind(*range(wants))
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"handler {route.name!r} cannot be called; write `def {route.name}(event, tx)` "
            f"or `async def {route.name}(event)`"
        ) from error
    if wants == 1:
        return Handler(route, at_least_once=function)
    return Handler(route, in_transaction=function)
