"""A time range that ends before it begins is an error, wherever one is given."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.commands import Shell

PATHS = (
    "events", "conflicts", "dead-letters", "deliveries", "undelivered", "sends", "suppressions",
    "audit", "stats",
)  # fmt: skip
COMMANDS = (
    "events", "conflicts", "dead list", "dead retry", "delivery list", "undelivered", "sends list",
    "suppression list", "audit", "stats", "redeliver", "reprocess", "inbox messages a@b.test",
)  # fmt: skip
REVERSED = {"since": "2026-01-02", "until": "2026-01-01"}


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    shell = Shell(tmp_path_factory.mktemp("order"))
    with shell.serving() as url:
        (shell.folder / "url").write_text(url)
        yield shell


def _key(shell: Shell) -> dict[str, str]:
    key = shell.ok("key", "add", "--name", "ops", "--scope", "operator", "--json").json["key"]
    return {"Authorization": f"Bearer {key}"}


def test_the_api_refuses_times_in_the_wrong_order(shell: Shell, subtests: pytest.Subtests) -> None:
    url, headers = Path(shell.folder, "url").read_text(), _key(shell)

    for path in PATHS:
        with subtests.test(path):
            answer = httpx.get(f"{url}/v1/{path}", params=REVERSED, headers=headers)
            equal = httpx.get(
                f"{url}/v1/{path}", params=REVERSED | {"until": "2026-01-02"}, headers=headers
            )

            assert answer.status_code == 400, answer.text
            assert "`since` is later than `until`" in answer.json()["detail"]
            assert equal.status_code == 200, equal.text
    for path in ("redeliveries", "reprocessings"):
        with subtests.test(path):
            answer = httpx.post(f"{url}/v1/{path}", json=REVERSED, headers=headers)

            assert answer.status_code == 400, answer.text


def test_commands_refuse_times_in_the_wrong_order(shell: Shell, subtests: pytest.Subtests) -> None:
    for command in COMMANDS:
        with subtests.test(command):
            done = shell.run(*command.split(), "--since", "1d", "--until", "3d")

            assert done.code == 2, done.out + done.err
            assert "--since" in done.err
            assert "is later than --until" in done.err
