"""The error of an argument that the caller gave."""

from mailonce.errors import ParseError


class ArgumentError(ParseError):
    """An argument of a request is wrong.

    Its sentence quotes nothing but that argument and limits of ours, never a mail or a provider, so
    that an agent may read it as it is.
    """
