"""One `mailonce serve --dev` for all pages that speak to a server."""

from collections.abc import Iterator

import pytest

from tests.documents.shell import Bash, open_bash


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bash]:
    with open_bash(tmp_path_factory.mktemp("docs") / "folder") as opened:
        opened.start_server("--dev", environment={"MAILONCE_NET__ALLOW_HOSTS": '["127.0.0.1"]'})
        yield opened
