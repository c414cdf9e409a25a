"""Recovery points: what a copy of a request has done, as the next one is told.

A point's result is kept as the JSON that is recorded, and read anew whenever it is given: what a
handler changes in it afterwards changes nothing here.
"""

import json
from collections.abc import Coroutine, Mapping
from functools import partial
from inspect import isasyncgen, isgenerator, isroutine
from typing import Any

from mailonce.errors import ConfigError

# Stands behind the name of a call that was made, and whose result could not be recorded.
UNKEPT = " (result not kept)"

TWICE = (
    "the recovery point {name!r} is reached twice in one request, and would be done once; give "
    "each a name of its own, such as `f'{name}-{{number}}'`"
)
OWED_TWICE = (
    "the effect {name!r} is owed twice in one request, and would be done once; give each a name of "
    "its own: `passage.owe(topic, body, name=…)`"
)
NESTED = (
    "the recovery point {name!r} begins inside another one, and could not be recorded by itself; "
    "let the other one end first"
)
NO_NAME = "a recovery point is named by a text that is not empty, not by {name!r}"
MADE = (
    "the call of {name!r} was made, but its result was not recorded: {reason}. It is not made "
    "again under this name: take its result from where it was made, or give the point a new name"
)
UNDONE = (
    "the change of {name!r} was undone, because what its function returned cannot be recorded: "
    "{reason}"
)
NOT_DONE = (
    "the function of the recovery point {name!r} returned {what}, so that its work is not done and "
    "nothing is recorded; {remedy}"
)
IN_DOUBT = (
    "whether the recovery point {name!r} was recorded is not known, so that nothing further is "
    "done for this copy; the next one knows"
)


class NotDoneError(ConfigError):
    """The function of a recovery point returned before its work was done."""


class Points:
    """The recovery points of one request, and which of them this copy has reached."""

    def __init__(self, known: Mapping[str, Any], *, bytes_max: int) -> None:
        self._texts = {name: json.dumps(value) for name, value in known.items()}
        self._bytes_max = bytes_max
        self._reached: set[str] = set()

    def is_reached(self, name: str) -> bool:
        """Say whether this copy has done it, or is at it."""
        return name in self._reached

    def reach(self, name: str) -> bool:
        """Say whether an earlier copy has done it already.

        Raises: ConfigError for no name, and for a call that was made but has no known result.
        """
        if not isinstance(name, str) or not name:
            raise ConfigError(NO_NAME.format(name=name))
        assert name not in self._reached, f"{name!r} is reached twice"
        if name + UNKEPT in self._texts:
            reason = json.loads(self._texts[name + UNKEPT])
            raise ConfigError(MADE.format(name=name, reason=reason))
        self._reached.add(name)
        return name in self._texts

    def leave(self, name: str) -> None:
        """Let a point that failed be tried again."""
        self._reached.discard(name)

    def result(self, name: str) -> Any:
        """Give what was recorded, made anew."""
        return json.loads(self._texts[name])

    def written(self, name: str, value: object) -> str:
        """Write the result of a point as JSON.

        Raises: ConfigError where that is none, or too much; NotDoneError where it shows that the
        work was not done.
        """
        try:
            text = json.dumps(value, default=partial(_refuse, name))
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigError(
                f"it is a {type(value).__name__}, which is no JSON or holds something that is "
                "none; return texts, numbers, lists and dicts of them"
            ) from error
        if len(self.joined({name: text})) > self._bytes_max:
            raise ConfigError(
                "with it the recovery points of this request are above `points_bytes_max` "
                f"({self._bytes_max} bytes); return less, such as an id"
            )
        return text

    def of_call(self, name: str, value: object) -> tuple[dict[str, str], ConfigError | None]:
        """Write the result of a call that was made; where it cannot be kept, that it was made.

        Raises: NotDoneError.
        """
        try:
            return {name: self.written(name, value)}, None
        except NotDoneError:
            raise
        except ConfigError as error:
            made = ConfigError(MADE.format(name=name, reason=error))
            return {name + UNKEPT: json.dumps(str(error))}, made

    def of_phase(self, name: str, value: object) -> str:
        """Write the result of a change that is not committed yet.

        Raises: ConfigError where it cannot be kept.
        """
        try:
            return self.written(name, value)
        except NotDoneError:
            raise
        except ConfigError as error:
            raise ConfigError(UNDONE.format(name=name, reason=error)) from error

    def joined(self, added: dict[str, str]) -> str:
        """Write all points as one JSON object, with those that are `added`."""
        texts = self._texts | added
        pairs = [f"{json.dumps(name)}: {text}" for name, text in texts.items()]
        return "{" + ", ".join(pairs) + "}"

    def keep(self, added: Mapping[str, str]) -> None:
        """Know what was recorded."""
        self._texts.update(added)


def _refuse(name: str, value: object) -> str:
    """Say of what is no JSON, anywhere in a result, why: its work may be yet to be done.

    Raises: NotDoneError, else TypeError.
    """
    if isinstance(value, Coroutine):
        value.close()
        what = "a coroutine that nobody awaited"
        remedy = "write `await` before it, in an `async def`, and use AsyncGate"
    elif isgenerator(value) or isasyncgen(value):
        what, remedy = "a generator, which works when it is read", "return a list"
    elif isroutine(value):
        what, remedy = "a function that nobody called", "call it"
    else:
        raise TypeError(f"a {type(value).__name__} is no JSON")
    raise NotDoneError(NOT_DONE.format(name=name, what=what, remedy=remedy))
