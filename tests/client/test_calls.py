"""The calls of the client: their words are those of the server."""

from typing import get_args

import pytest

from mailonce import Client
from mailonce.client.calls import ExpectationKind
from mailonce.core.extraction.extraction import ArtifactKind
from mailonce.errors import UnavailableError


def test_the_kinds_of_expectations_are_those_of_the_server() -> None:
    assert get_args(ExpectationKind) == tuple(ArtifactKind)


def test_a_type_checker_finds_a_kind_that_is_none() -> None:
    with Client("http://127.0.0.1:1", "mok_1", retry_s=0) as client:
        with pytest.raises(UnavailableError):
            client.open_expectation(None, "link", link_hosts=["shop.example"])
        with pytest.raises(UnavailableError):
            # An ignored error that is none is an error of the lint.
            client.open_expectation(None, "otp")  # type: ignore[arg-type]
