"""Notice a call that nobody awaits before the gate commits without what it should have done.

Python tells of a coroutine that was never awaited when it is freed: at the end of its statement, or
with the names of the handler. Both are before the gate records the answer, and in the handler's own
context. It only warns, and the warning goes to a log that nobody reads; so its hook is wrapped.
"""

import warnings
from collections.abc import Callable
from typing import Any

Notice = Callable[[object, str], None]

# CPython looks it up by this name, in this module, each time.
_HOOK = "_warn_unawaited_coroutine"
_notices: list[Notice] = []


def notice_unawaited(notice: Notice) -> None:
    """Give `notice` the object and the name of each method whose call was never awaited.

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
        owner = None if frame is None else frame.f_locals.get("self")
        if owner is not None:
            for notice in _notices:
                notice(owner, coroutine.__name__)
        warn(coroutine)

    return warn_unawaited
