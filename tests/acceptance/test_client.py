"""Both clients against a real server: waits, restarts, lost answers, and sends."""

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mailonce import AsyncClient, Client
from mailonce.client import WaitTimeoutError
from mailonce.errors import (
    AccessError,
    ClashError,
    MissingError,
    ParseError,
    UnavailableError,
    VerifyError,
)
from tests.acceptance.harness import ADMIN_KEY, Server, running
from tests.acceptance.mailing import send_mail
from tests.acceptance.sending import running_fakes, sending_server
from tests.client.losing import LosingProxy
from tests.servers import free_port, wait_for

SENDER = """
[senders.out]
provider = "smtp"
host = "127.0.0.1"
port = 1
tls = "none"
"""


class Awaited:
    """An `AsyncClient`, called as a blocking one, so that one test holds for both."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._arguments, self._named = arguments, named

    def __getattr__(self, name: str) -> Any:
        async def run(*arguments: Any, **named: Any) -> Any:
            async with AsyncClient(*self._arguments, **self._named) as client:
                return await getattr(client, name)(*arguments, **named)

        return lambda *arguments, **named: asyncio.run(run(*arguments, **named))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Iterator[Server]:
    """One server for the module: its tests have inboxes of their own."""
    folder = tmp_path_factory.mktemp("client")
    database = folder / "data.db"
    database.write_bytes(sqlite_template.read_bytes())
    with running(
        Server(folder / "server", f"sqlite:///{database}", SENDER, smtp_port=free_port())
    ) as started:
        yield started


@pytest.fixture(params=[Client, Awaited])
def client(request: pytest.FixtureRequest, server: Server) -> Any:
    return request.param(server.url, ADMIN_KEY)


def test_a_wait_ends_with_the_mail_that_matches(client: Any, server: Server) -> None:
    inbox = client.make_inbox(metadata={"test": "wait"})
    send_mail(server, inbox.address, subject="early")
    timer = threading.Timer(0.2, send_mail, [server, inbox.address], {"subject": "Your code"})
    timer.start()

    message = client.wait_for_message(inbox, subject="code", sender="@example.org", timeout_s=60)

    assert (message.subject, message.sender, message.seq) == ("Your code", "shop@example.org", 2)
    assert b"Subject: Your code" in client.raw_mail(inbox, message)
    everything = client.read_messages(inbox)
    assert ([one.subject for one in everything], len(everything)) == (["early", "Your code"], 2)
    page = client.read_messages(inbox, after=message.seq)
    assert (page.messages, page.next, page.refused) == ((), 2, ())
    assert page.listening_since is not None
    timer.join()


def test_a_wait_that_finds_nothing_says_so(client: Any) -> None:
    inbox = client.make_inbox()

    with pytest.raises(WaitTimeoutError, match="no matching mail"):
        client.wait_for_message(inbox.address, timeout_s=0.3)


def test_an_inbox_is_made_found_and_deleted(client: Any) -> None:
    inbox = client.make_inbox(ttl_s=600)

    assert client.find_inbox(inbox.address).id == inbox.id
    assert client.put_message(inbox, b"Subject: hi\r\n\r\nHi\r\n") is True
    assert client.put_message(inbox, b"Subject: hi\r\n\r\nHi\r\n") is False
    assert client.wait_for_message(inbox).subject == "hi"
    client.delete_inbox(inbox)
    client.delete_inbox(inbox)
    with pytest.raises(MissingError):
        client.find_inbox(inbox)


def test_a_lost_answer_makes_no_second_inbox(server: Server) -> None:
    for kind in (Client, Awaited):
        with LosingProxy(server.port) as proxy:
            client: Any = kind(proxy.url, ADMIN_KEY)
            proxy.lose_answer_to(b"POST /v1/inboxes ")
            mark = {"lost": kind.__name__}

            inbox = client.make_inbox(metadata=mark)

            assert proxy.lost == 1
        shown = server.get("/v1/inboxes", limit=1000)["data"]
        assert [one["id"] for one in shown if one["metadata"] == mark] == [inbox.id]


def test_a_send_whose_answer_was_lost_is_one_send(server: Server) -> None:
    for kind in (Client, Awaited):
        keys: list[str] = []
        with LosingProxy(server.port) as proxy:
            client: Any = kind(proxy.url, ADMIN_KEY)
            proxy.lose_answer_to(b"POST /v1/sends ")

            sent = client.send(
                "ann@example.net",
                from_="shop@example.com",
                subject="Hi",
                text="Hello",
                attachments=[{"name": "a.txt", "content": b"\x00\xff"}],
                on_key=keys.append,
            )

            assert proxy.lost == 1
        assert sent.is_replayed
        assert [sent.key] == keys
        assert len(server.get("/v1/sends", key=sent.key)["data"]) == 1


def test_a_send_has_its_key_or_the_one_of_its_cause(client: Any) -> None:
    mail = {"from_": "shop@example.com", "subject": "Hi", "text": "Hello"}
    key = f"order-{type(client).__name__}"

    first = client.send("bob@example.net", key=key, **mail)
    again = client.send("bob@example.net", key=key, **mail)
    later = datetime.now(UTC) + timedelta(hours=1)
    people = ["a@example.net", "b@example.net"]
    caused = client.send_many(people, cause_id=key, send_at=later, **mail)

    assert (first.id, first.is_replayed, again.is_replayed) == (again.id, False, True)
    assert first.key == key
    assert [one.to for one in caused] == people
    assert client.find_send(first.id).json["subject"] == "Hi"
    assert client.find_send(first).id == first.id
    assert client.cancel_send(caused[0]).state == "cancelled"
    assert client.cancel_send(caused[1].id).state == "cancelled"
    with pytest.raises(ParseError, match="is a str; give"):
        client.send("bob@example.net", attachments=["a.pdf"], **mail)
    with pytest.raises(ClashError):
        client.send("bob@example.net", key=key, **{**mail, "text": "Other"})


def send_code(server: Server, address: str, code: str = "492817") -> None:
    send_mail(server, address, subject=f"Code {code}", text=f"Your verification code is {code}.")


def test_a_code_is_expected_consumed_and_confirmed(client: Any, server: Server) -> None:
    opened = client.open_expectation(None, "code", senders=["@example.org"], resends=2)
    timer = threading.Timer(0.2, send_code, [server, opened.json["address"]])
    timer.start()

    ready = client.wait_for_expectation(opened, timeout_s=60)
    consumption = client.consume(ready, "run-1")
    again = client.consume(ready.id, "run-1")
    with pytest.raises(ClashError) as taken:
        client.consume(ready, "run-2")
    rejected = client.confirm(ready, "run-1", accepted=False)
    resend = client.resend(ready, number=1)
    explained = client.explain(ready)

    assert (ready.state, ready.artifact.kind, ready.candidates) == ("ready", "code", 1)
    assert ready.artifact.value is None
    assert consumption.value == again.value == "492817"
    assert (taken.value.code, "retry_at" in taken.value.members) == ("consumed", True)
    assert rejected["state"] == "pending"
    assert set(resend) == {"granted", "reason", "resends_left", "wait_s"}
    assert [mail["seq"] for mail in explained["judged"]] == [1]
    timer.join()


def test_a_wait_for_an_expectation_gives_it_as_it_stands(client: Any) -> None:
    opened = client.open_expectation(client.make_inbox(), "link", link_hosts=["shop.example"])

    assert client.wait_for_expectation(opened, timeout_s=0.3).state == "pending"


def test_an_expectation_is_narrowed_and_never_widened(client: Any) -> None:
    opened = client.open_expectation(None, "code", senders=["@example.org"], resends=3)

    for _ in range(2):
        narrow = client.narrow(opened, senders=["shop@example.org"], resends=1, deadline_s=60)
        assert (narrow.id, narrow.json["resends_left"]) == (opened.id, 1)

    with pytest.raises(AccessError):
        client.narrow(opened.id, senders=["@example.org"])
    with pytest.raises(AccessError):
        client.narrow(opened.id, resends=2)


def test_answers_that_are_lost_take_nothing_twice(server: Server) -> None:
    for kind in (Client, Awaited):
        with LosingProxy(server.port) as proxy:
            client: Any = kind(proxy.url, ADMIN_KEY)
            proxy.lose_answer_to(b"POST /v1/expectations ")
            opened = client.open_expectation(None, "code")
            send_code(server, opened.json["address"])
            proxy.lose_answer_to(b"wait=")
            ready = client.wait_for_expectation(opened, timeout_s=60)
            proxy.lose_answer_to(b"/consume ")
            consumption = client.consume(ready)
            proxy.lose_answer_to(b"/confirm ")
            client.confirm(ready, consumption.consume_key)

            assert proxy.lost == 4
        assert consumption.value == "492817"
        rows = server.get("/v1/consumptions", limit=1000)["data"]
        own = [row for row in rows if row["expectation"] == opened.id]
        assert [row["state"] for row in own] == ["accepted"]
        assert len(server.get("/v1/expectations", inbox=opened.json["inbox"])["data"]) == 1


def test_errors_are_those_of_the_server(client: Any, server: Server) -> None:
    agent = server.api("/v1/keys", method="POST", json={"name": "a", "scope": "agent"}).json()
    kind = type(client)

    with pytest.raises(MissingError, match="inbox"):
        client.find_inbox("inb_nobody")
    with pytest.raises(VerifyError):
        kind(server.url, "mok_wrong").find_inbox("inb_nobody")
    with pytest.raises(AccessError):
        kind(server.url, agent["key"]).make_inbox()


@pytest.mark.parametrize("kind", [Client, Awaited])
def test_a_wait_survives_restarts_of_the_server(
    kind: type[Any], sqlite_template: Path, tmp_path: Path
) -> None:
    database = tmp_path / "data.db"
    database.write_bytes(sqlite_template.read_bytes())
    server = Server(tmp_path / "server", f"sqlite:///{database}", "", smtp_port=free_port())
    with running(server):
        client = kind(server.url, ADMIN_KEY)
        inbox = client.make_inbox()
        opened = client.open_expectation(inbox, "code")
        messages: list[Any] = []
        expectations: list[Any] = []
        waiting = threading.Thread(
            target=lambda: messages.append(
                client.wait_for_message(inbox, subject="at last", timeout_s=120)
            )
        )
        expecting = threading.Thread(
            target=lambda: expectations.append(
                kind(server.url, ADMIN_KEY).wait_for_expectation(opened, timeout_s=120)
            )
        )
        waiting.start()
        expecting.start()
        for number in range(2):
            send_mail(server, inbox.address, subject=f"no {number}")
            server.kill()
            server.start()
        send_mail(server, inbox.address, subject="at last", text="Your code is 492817.")
        waiting.join(120)
        expecting.join(120)

    [message] = messages
    assert (message.subject, message.seq) == ("at last", 3)
    [expectation] = expectations
    assert expectation.state == "ready"


def test_a_mail_that_was_sent_is_accepted(sqlite_template: Path, tmp_path: Path) -> None:
    database = tmp_path / "data.db"
    database.write_bytes(sqlite_template.read_bytes())
    with running_fakes("smtp") as fakes:
        server = sending_server(tmp_path / "server", f"sqlite:///{database}", fakes)
        with running(server), Client(server.url, ADMIN_KEY) as client:
            sent = client.send("ann@example.net", from_="shop@example.com", text="Hi", subject="a")
            wait_for(
                lambda: client.find_send(sent.id).state == "accepted", what="the send's acceptance"
            )


@pytest.mark.parametrize("kind", [Client, Awaited])
def test_a_server_that_is_paused_does_not_hold_a_wait_past_its_end(
    kind: type[Any], sqlite_template: Path, tmp_path: Path
) -> None:
    database = tmp_path / "data.db"
    database.write_bytes(sqlite_template.read_bytes())
    with running(Server(tmp_path / "server", f"sqlite:///{database}", "")) as server:
        client = kind(server.url, ADMIN_KEY)
        opened = client.open_expectation(None, "code")
        os.kill(server.pid, signal.SIGSTOP)

        with pytest.raises(UnavailableError, match="no mailonce server answers"):
            client.wait_for_expectation(opened, timeout_s=0.2)

        os.kill(server.pid, signal.SIGCONT)
        assert client.wait_for_expectation(opened, timeout_s=0).state == "pending"


def test_threads_share_a_client(server: Server) -> None:
    with Client(server.url, ADMIN_KEY) as client, ThreadPoolExecutor(16) as pool:
        inboxes = list(
            pool.map(lambda number: client.make_inbox(metadata={"n": number}), range(64))
        )
        again = list(pool.map(client.find_inbox, inboxes))

    assert [one.metadata["n"] for one in again] == list(range(64))
    assert len({one.id for one in again}) == 64


def test_a_wait_that_is_cancelled_leaves_the_client_usable(server: Server) -> None:
    async def cancel_and_go_on() -> str:
        async with AsyncClient(server.url, ADMIN_KEY) as client:
            inbox = await client.make_inbox()
            for _ in range(3):
                waiting = asyncio.create_task(client.wait_for_message(inbox, timeout_s=60))
                await asyncio.sleep(0)
                await client.find_inbox(inbox)
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)
            await asyncio.to_thread(send_mail, server, inbox.address, subject="after all")
            return (await client.wait_for_message(inbox, timeout_s=60)).subject

    assert asyncio.run(cancel_and_go_on()) == "after all"
