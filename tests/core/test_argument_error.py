"""Errors of arguments: they are told as any other error of a request is."""

from mailonce.core.argument_error import ArgumentAccessError, ArgumentError
from mailonce.errors import AccessError, ParseError


def test_programs_see_the_errors_that_they_are() -> None:
    wrong = ArgumentError("`ttl_s` is 0; use seconds from 1")
    forbidden = ArgumentAccessError("`after` needs an operator's key")

    assert isinstance(wrong, ParseError)
    assert isinstance(forbidden, AccessError)
    assert (wrong.code, forbidden.code) == (ParseError.code, AccessError.code)
