"""Errors of arguments that the caller gave.

Their sentences quote nothing but such an argument and limits of ours, never a mail or a provider,
so that an agent may read them as they are.
"""

from mailonce.errors import AccessError, ParseError


class ArgumentError(ParseError):
    """An argument of a request is wrong."""


class ArgumentAccessError(AccessError):
    """An argument asks for more than the caller's key may have."""
