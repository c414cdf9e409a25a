"""Functions that an app gives to the gate: whether they can be called as the gate calls them."""

from collections.abc import Callable
from inspect import signature
from typing import Any

from mailonce.errors import ConfigError


def demand_arguments(function: Callable[..., Any], name: str, *arguments: str) -> None:
    """Refuse a function that cannot be called with these arguments, when it is given.

    Raises: ConfigError that says how it is written.
    """
    try:
        known = signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        # Written in C: nobody knows before it is called.
        return
    try:
        known.bind(*arguments)
    except TypeError as error:
        takes = ", ".join(arguments)
        raise ConfigError(
            f"`{name}` is called with ({takes}), which this function does not take; write "
            f"`def {getattr(function, '__name__', name).strip('<>')}({takes})`"
        ) from error
