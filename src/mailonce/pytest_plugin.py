"""Fixtures for pytest: a server, and an inbox whose codes and links a test reads.

def test_sign_up(inbox):
    sign_up(inbox.address)
    assert log_in(code=inbox.expect_code(sender="shop@example.com"))

It is loaded into every run of pytest where mailonce is installed, so nothing is imported here
before a test asks for a fixture.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from mailonce.fixtures.inbox import FixtureInbox
    from mailonce.fixtures.server import FixtureServer


@pytest.fixture(scope="session")
def mailonce_settings() -> "Mapping[str, Any]":
    """Settings of the server that is started, as mailonce.toml has them: override it in conftest.

    {"net": {"allow_hosts": ["localhost"]}} lets it call an application on this machine.
    """
    return {}


@pytest.fixture(scope="session")
def mailonce_server(mailonce_settings: "Mapping[str, Any]") -> "Iterator[FixtureServer]":
    """The server of MAILONCE_URL and MAILONCE_KEY; without them one is started for this run.

    Each process of pytest-xdist has one of its own, on free ports and in a temporary folder.
    """
    from mailonce.fixtures.server import fixture_server  # noqa: PLC0415 - see above

    with fixture_server(settings=mailonce_settings) as server:
        yield server


@pytest.fixture
def inbox(mailonce_server: "FixtureServer") -> "Iterator[FixtureInbox]":
    """An inbox of this test alone, deleted when the test has ended."""
    with mailonce_server.new_inbox() as made:
        yield made
