"""Errors of arguments: they are told as any other error of a request is."""

from mailonce.core.argument_error import ArgumentError
from mailonce.errors import ParseError


def test_programs_see_what_is_not_as_documented() -> None:
    error = ArgumentError("`ttl_s` is 0; use seconds from 1")

    assert isinstance(error, ParseError)
    assert error.code == ParseError.code
