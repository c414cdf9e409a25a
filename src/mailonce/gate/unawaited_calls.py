"""Notice a call that nobody awaits before the gate commits without what it should have done.

Python tells of a coroutine that was never awaited when it is freed: at the end of its statement, or
with the names of the handler. Both are before the gate records the answer, and in the handler's own
context. It only warns, and the warning goes to a log that nobody reads; so its hook is replaced.
"""

import warnings
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import wraps
from inspect import isawaitable
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class UnawaitedCall:
    """A call of a method that was never awaited."""

    owner: object
    name: str
    arguments: Mapping[str, Any]


Notice = Callable[[UnawaitedCall], None]

# CPython looks it up by this name, in this module, each time.
_HOOK = "_warn_unawaited_coroutine"
_notices: list[Notice] = []


def noting_calls(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """Keep the name of a method in `open_calls` of its object, from its call to its end.

    A task that was made of it may not even have begun when the handler answers.
    """

    @wraps(method)
    async def run(self: Any, *args: P.args, **choices: P.kwargs) -> R:
        try:
            return await method(self, *args, **choices)
        finally:
            self.open_calls.remove(method.__name__)

    def call(self: Any, *args: P.args, **choices: P.kwargs) -> Coroutine[Any, Any, R]:
        self.open_calls.append(method.__name__)
        return run(self, *args, **choices)

    noting: Any = wraps(method)(call)
    wrapped: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]] = noting
    return wrapped


async def awaited(made: Awaitable[R]) -> R:
    """Await what a function made; one that is not async has done its work already."""
    return await made if isawaitable(made) else made


def notice_unawaited(notice: Notice) -> None:
    """Give `notice` each call of a method that was never awaited.

    Where Python has no such hook, its own warning is all there is.
    """
    if notice in _notices:
        return
    if not _notices and hasattr(warnings, _HOOK):
        setattr(warnings, _HOOK, _noticing(getattr(warnings, _HOOK)))
    _notices.append(notice)


def _noticing(warn: Callable[[Any], None]) -> Callable[[Any], None]:
    def warn_unawaited(coroutine: Any) -> None:
        frame = getattr(coroutine, "cr_frame", None)
        arguments = {} if frame is None else frame.f_locals
        owner = arguments.get("self")
        if owner is not None:
            for notice in _notices:
                notice(UnawaitedCall(owner, coroutine.__name__, arguments))
        if getattr(coroutine, "cr_origin", None) is not None:
            # Where Python was told to remember it, its own words have the line that made it.
            warn(coroutine)
            return
        # Python's own hook names its caller, which is this function now and not the app's line.
        words = f"coroutine {coroutine.__qualname__!r} was never awaited"
        warnings.warn(words, RuntimeWarning, stacklevel=2, source=coroutine)

    return warn_unawaited
