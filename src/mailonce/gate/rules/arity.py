"""Functions that an app gives to the gate: whether they can be called as the gate calls them."""

from collections.abc import Callable
from inspect import isasyncgenfunction, iscoroutine, isgeneratorfunction, signature
from typing import Any

from mailonce.errors import ConfigError


def demand_arguments(function: Callable[..., Any], name: str, *arguments: str) -> None:
    """Refuse a function that cannot be called with these arguments, when it is given.

    Raises: ConfigError that says how it is written.
    """
    if not _takes(function, arguments):
        listed = ", ".join(arguments)
        raise ConfigError(
            f"`{name}` is called with ({listed}), which this function does not take; write "
            f"`def {getattr(function, '__name__', name).strip('<>')}({listed})`"
        )


def fault_of_point(function: object, *, act: str, name: str, argument: str) -> str | None:
    """Say why the recovery point `name` cannot do its work by calling this; None where it can.

    A coroutine is closed: its work was not begun, and never is.
    """
    if iscoroutine(function):
        function.close()
    if not callable(function):
        return (
            f"the recovery point {name!r} was given {kind_of(function)}, and needs a function that "
            f"the gate calls; write `passage.{act}({name!r}, lambda {argument}: …)`, with the call "
            "in place of the dots"
        )
    if isgeneratorfunction(function) or isasyncgenfunction(function):
        return (
            f"the function of the recovery point {name!r} has a `yield`, so that calling it does "
            "nothing; remove the `yield`"
        )
    if not _takes(function, (argument,)):
        return (
            f"the function of the recovery point {name!r} is called with ({argument}), which it "
            f"does not take; write `lambda {argument}: …`, with the call in place of the dots"
        )
    return None


def kind_of(given: object) -> str:
    """Name the kind of what was given, with its article."""
    name = type(given).__name__
    return "None" if given is None else f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


def _takes(function: Callable[..., Any], arguments: tuple[str, ...]) -> bool:
    try:
        known = signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        # Written in C: nobody knows before it is called.
        return True
    try:
        known.bind(*arguments)
    except TypeError:
        return False
    return True
