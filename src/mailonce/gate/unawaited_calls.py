"""Notice a call that nobody awaits before the gate commits without what it should have done.

Python tells of a coroutine that was never awaited when it is freed: at the end of its statement, or
with the names of the handler. Both are before the gate records the answer, and in the handler's own
context. It only warns, and the warning goes to a log that nobody reads; so its hook is replaced.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


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
