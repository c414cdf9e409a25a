"""`mailonce serve --dev`: what is sent stays in inboxes here, on both databases."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.harness import Server, running
from tests.acceptance.sending import running_fakes, sending_server, submit
from tests.servers import free_port, wait_for

DEV = {"MAILONCE_DEV": "true"}
DOCS = Path(__file__).parents[2] / "docs" / "sends.md"


@pytest.fixture
def server(database_url: str, tmp_path: Path) -> Iterator[Server]:
    with running(Server(tmp_path / "server", database_url, "", DEV)) as started:
        yield started


def mails_of(server: Server, address: str) -> list[dict[str, Any]]:
    mails: list[dict[str, Any]] = server.get(f"/v1/inboxes/{address}/messages", wait=20)["data"]
    return mails


def state_of(server: Server, id_: str) -> str:
    state: str = server.get(f"/v1/sends/{id_}")["state"]
    return state


def test_a_mail_is_in_its_recipients_inbox_and_nobody_configured_anything(server: Server) -> None:
    first = submit(server, to="Ann <ann@example.net>")
    again = submit(server, to="Ann <ann@example.net>")

    [mail] = mails_of(server, "ann@example.net")
    sent = first.json()["id"]
    assert (first.status_code, again.json()["id"]) == (202, sent)
    assert (mail["subject"], mail["text"].strip()) == ("Your order", "Thank you.")
    assert mail["from"]["address"] == "shop@example.com"
    wait_for(lambda: state_of(server, sent) == "accepted", what="the send to be accepted")
    shown = server.get(f"/v1/sends/{sent}")
    assert (
        shown["provider_message_id"]
        == shown["message_id"]
        == f"<{shown['correlation_id']}@example.com>"
    )
    assert shown["sender_name"] == "dev"
    assert "no mail leaves this machine" in server.log
    # An inbox that asks for no domain is where it would be without --dev.
    made = server.api("/v1/inboxes", method="POST", json={"local": "eve"})
    assert made.json()["address"] == "eve@inbox.localhost"


def test_tags_catch_alls_and_many_recipients(server: Server) -> None:
    domain = server.api("/v1/domains", method="POST", json={"domain": "shop.example.org"})
    everybody = server.api(
        "/v1/inboxes", method="POST", json={"local": "*", "domain": "shop.example.org"}
    )
    assert (domain.status_code, everybody.status_code) == (201, 201), everybody.text
    many = [f"p{number}@crowd.example.net" for number in range(300)]

    submit(server, "tagged", to="ann+news@example.net")
    submit(server, "caught", to="bob@shop.example.org")
    submit(server, "many", to=many)

    assert len(mails_of(server, "ann@example.net")) == 1
    assert len(mails_of(server, "*@shop.example.org")) == 1
    assert [len(mails_of(server, one)) for one in (many[0], many[-1])] == [1, 1]


def test_an_address_that_can_have_no_inbox_is_refused_with_a_sentence(server: Server) -> None:
    sent = submit(server, to="ann@localhost").json()["id"]

    wait_for(lambda: state_of(server, sent) == "refused", what="the send to be refused")
    assert "is no mail domain" in server.get(f"/v1/sends/{sent}")["reason"]


def test_mail_of_dev_never_leaves_and_other_mail_is_never_kept_here(
    database_url: str, tmp_path: Path
) -> None:
    worker = {"MAILONCE_ROLES": '["door"]'}
    with running_fakes("smtp") as fakes:
        folder = tmp_path / "server"
        # Submitted without a worker, so that each waits for the next server.
        with running(sending_server(folder, database_url, fakes, environment=worker)) as server:
            real = submit(server, "real").json()["id"]
        with running(
            sending_server(folder, database_url, fakes, environment={**worker, **DEV})
        ) as server:
            kept = submit(server, "kept", to="bob@example.net").json()["id"]
        with running(sending_server(folder, database_url, fakes, environment=DEV)) as server:
            [mail] = mails_of(server, "bob@example.net")
            wait_for(lambda: state_of(server, kept) == "accepted", what="the mail of --dev")
            late = submit(server, "late", to="cat@example.net", send_at=None).json()["id"]
            wait_for(lambda: state_of(server, late) == "accepted", what="another one")
            assert state_of(server, real) == "pending"
            assert fakes["smtp"].messages == []
        with running(sending_server(folder, database_url, fakes)) as server:
            wait_for(lambda: state_of(server, real) == "accepted", what="the mail that waited")

        [message] = fakes["smtp"].messages
        assert message.mail.recipient == "ann@example.com"
        assert mail["message_id"] is not None


def test_the_first_send_works_as_printed(tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed; `apt-get install curl` to run the printed lines")
    block = re.search(r"serve --dev.*?```sh\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert block is not None, "docs/sends.md shows a first send against --dev"
    key = {"MAILONCE_ADMIN_KEY": "my-first-admin-key"}
    server = Server(
        tmp_path / "server", f"sqlite:///{tmp_path / 'data.db'}", "", {**key, **DEV},
        smtp_port=free_port(),
    )  # fmt: skip
    with running(server):
        script = block.group(1).replace("localhost:8100", f"127.0.0.1:{server.port}")

        done = subprocess.run(
            ["bash", "-euc", script],
            capture_output=True,
            text=True,
            check=True,
        )

    first, again, read = map(json.loads, done.stdout.splitlines())
    assert first["id"] == again["id"]
    [mail] = read["data"]
    assert mail["subject"] == "Your receipt"
