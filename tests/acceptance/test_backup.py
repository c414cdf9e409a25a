"""A backup, restored: what was recorded is known, and what was pending then is not doubled.

The commands are those of docs/operate.md, as printed there.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from mailonce.testing.fakes import FakeAct
from tests.acceptance.harness import Server, running
from tests.acceptance.sending import (
    MASTER_KEY,
    running_fakes,
    sending_server,
    submit,
)
from tests.commands import Shell
from tests.documents.blocks import find_block
from tests.servers import PostgresServer, wait_for

SENDERS = ("resend", "postmark")
DOOR = {"MAILONCE_ROLES": '["door"]'}
COMMAND = re.compile(r"\bmailonce (?:verify|doctor)\b")
HOOKS = '[sources.hooks]\nprovider = "postmark"\nbasic = "hook:word"\n'


@dataclass
class Place:
    """A database, the backup of it, and where that is restored to."""

    folder: Path
    database: str
    restored: str
    commands: str = ""
    # On PostgreSQL, the role that may make databases; the one of `restored` may not.
    administrator: str = ""

    def back_up(self) -> None:
        self._run("Backup", self.database)

    def restore(self) -> None:
        self._run("Restore", self.database)

    def _run(self, part: str, database: str) -> None:
        name = "PostgreSQL" if database.startswith("postgresql") else "SQLite"
        number = {"Backup": 1, "Restore": 2}[part]
        block = find_block(f"operate.md | Backup on {name} | {number}")
        # `mailonce verify` and `mailonce doctor` are run below, in a fork.
        lines = [line for line in block.text.splitlines() if not COMMAND.search(line)]
        if self.administrator:
            restored = urlsplit(self.restored)
            names = f"{restored.path[1:]} OWNER {restored.username}"
            lines = [line.replace("mailonce_restored OWNER mailonce", names) for line in lines]
        done = subprocess.run(
            ["bash", "-euc", "\n".join(lines)],
            cwd=self.folder,
            env={
                "PATH": f"{self.commands}{os.pathsep}{os.environ['PATH']}",
                "MAILONCE_DATABASE": database,
                "RESTORED": self.restored,
                "ADMINISTRATOR": self.administrator,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


@pytest.fixture
def fakes() -> Iterator[dict[str, Any]]:
    with running_fakes(*SENDERS) as started:
        yield started


@pytest.fixture
def place(database_url: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    if database_url.startswith("sqlite"):
        if shutil.which("sqlite3") is None:
            pytest.skip("sqlite3 is not installed; `apt-get install sqlite3`")
        data = tmp_path / "mailonce-data"
        data.mkdir()
        restored = tmp_path / "restored/mailonce.db"
        yield Place(tmp_path, f"sqlite:///{data / 'mailonce.db'}", f"sqlite:///{restored}")
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    tools = str(server.binaries / "bin")
    name = f"restored_{urlsplit(database_url).path[1:]}"
    role = f"owner_of_{name}"
    ask = [f"{tools}/psql", "-q", database_url]
    subprocess.run([*ask, "-c", f"CREATE ROLE {role} LOGIN NOCREATEDB"], check=True)
    restored_url = server.url(name).replace("postgres@", f"{role}@") + "?sslmode=disable"
    yield Place(tmp_path, database_url, restored_url, tools, administrator=server.url())
    drop = ["-c", f"DROP DATABASE IF EXISTS {name} WITH (FORCE)", "-c", f"DROP ROLE {role}"]
    subprocess.run([*ask, *drop], check=True)


def make_server(
    folder: Path, database: str, fakes: dict[str, Any], *, is_door: bool = False
) -> Server:
    server = sending_server(folder, database, fakes, environment=DOOR if is_door else {})
    server.settings = HOOKS
    return server


def bounce(server: Server, number: int) -> str:
    body = {
        "RecordType": "Bounce",
        "ID": number,
        "Type": "HardBounce",
        "MessageID": f"m-{number}",
        "Email": "cat@example.net",
    }
    answer = server.post(body, source="hooks", headers={"Authorization": "Basic aG9vazp3b3Jk"})
    status: str = answer.json()["status"]
    return status


def state_of(server: Server, id_: str) -> str:
    state: str = server.get(f"/v1/sends/{id_}")["state"]
    return state


def send(server: Server, name: str, what: str) -> str:
    answer = submit(server, f"{name}-{what}", to=f"{what}@{name}.example.com", sender=name)
    assert answer.status_code == 202, answer.text
    id_: str = answer.json()["id"]
    return id_


@pytest.mark.slow
def test_a_restored_backup_knows_what_was_and_doubles_nothing_that_a_key_protects(
    place: Place, fakes: dict[str, Any], tmp_path: Path
) -> None:
    resend = fakes["resend"]
    with running(make_server(tmp_path / "first", place.database, fakes)) as server:
        assert [bounce(server, 1), bounce(server, 1)] == ["accepted", "duplicate"]
        settled = send(server, "resend", "settled")
        wait_for(lambda: state_of(server, settled) == "accepted", what="a first mail")
        resend.script(FakeAct.ACCEPT_AND_WAIT)
        in_flight = send(server, "resend", "in-flight")
        wait_for(lambda: len(resend.messages) == 2, what="a mail in flight")
        assert state_of(server, in_flight) == "in_flight"
        server.kill()
    with running(make_server(tmp_path / "door", place.database, fakes, is_door=True)) as door:
        pending = send(door, "resend", "pending")
        place.back_up()
        # All of this is not in the backup.
        assert bounce(door, 2) == "accepted"
    resend.release()
    with running(make_server(tmp_path / "later", place.database, fakes)) as server:
        wait_for(lambda: state_of(server, pending) == "accepted", what="the pending mail")
        wait_for(lambda: state_of(server, in_flight) == "accepted", what="the one in flight")
    assert len(resend.messages) == 3

    place.restore()

    shell = Shell(
        tmp_path, {"MAILONCE_DATABASE": place.restored, "MAILONCE_MASTER_KEY": MASTER_KEY}
    )
    verified = shell.ok("verify")
    shell.ok("doctor")
    with running(make_server(tmp_path / "again", place.restored, fakes)) as server:
        known = [event["message_id"] for event in server.all_events(source="hooks")]
        statuses = [bounce(server, 1), bounce(server, 2)]
        for id_ in (settled, pending, in_flight):
            wait_for(lambda id_=id_: state_of(server, id_) == "accepted", what="all to settle")
        suppressed = server.get("/v1/suppressions/cat@example.net")["suppressed"]
    assert "replayed" in verified.out
    assert known == ["m-1"]
    assert statuses == ["duplicate", "accepted"]
    assert suppressed is True
    assert len(resend.messages) == 3, "the provider's own key makes a repeated call the same mail"
    assert len(resend.sends) > 3, "calls were repeated"


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_restored_door_sends_nothing_until_a_person_has_looked(
    place: Place, fakes: dict[str, Any], tmp_path: Path
) -> None:
    """Postmark has no key: what was pending at the backup may have left since."""
    postmark = fakes["postmark"]
    with running(make_server(tmp_path / "door", place.database, fakes, is_door=True)) as door:
        old, first = send(door, "postmark", "old"), send(door, "postmark", "first")
        place.back_up()
    with running(make_server(tmp_path / "later", place.database, fakes)) as server:
        for id_ in (old, first):
            wait_for(lambda id_=id_: state_of(server, id_) == "accepted", what="the pending mail")
    place.restore()

    with running(make_server(tmp_path / "calm", place.restored, fakes, is_door=True)) as door:
        listed = {one["id"] for one in door.get("/v1/sends", state="pending")["data"]}
        for id_ in listed:
            assert door.api(f"/v1/sends/{id_}/cancel", method="POST").status_code == 200
    with running(make_server(tmp_path / "again", place.restored, fakes)) as server:
        new = send(server, "postmark", "new")
        # One lane, first come first served: what was pending would have left before this one.
        wait_for(lambda: state_of(server, new) == "accepted", what="a new mail")
        states = [state_of(server, old), state_of(server, first)]

    assert listed == {old, first}
    assert states == ["cancelled", "cancelled"]
    recipients = [message.mail.recipient.partition("@")[0] for message in postmark.messages]
    assert sorted(recipients) == ["first", "new", "old"]
