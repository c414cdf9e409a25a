"""Inboxes over HTTP: made once, filled over SMTP, read, waited for, streamed and deleted."""

import contextlib
import json
import shutil
import smtplib
import socket
import threading
from base64 import b64decode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.acceptance.harness import ADMIN_KEY, HTTP, Server, running
from tests.acceptance.mailing import make_inbox, read, send_mail, subjects, wait_for_mails
from tests.servers import free_port, start_postgres_in_memory, wait_for

SETTINGS = """
[inboxes]
domains = ["in.test", "bücher.test"]
"""


@pytest.fixture
def server(database_url: str, tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path / "server", database_url, SETTINGS, smtp_port=free_port())
    with running(made) as started:
        yield started


def test_an_inbox_is_made_filled_read_rotated_and_deleted(server: Server) -> None:
    _check_making(server)
    _check_addresses(server)
    _check_waiting(server)
    _check_quota(server)
    _check_searching(server)
    _check_files(server)
    _check_deleting_a_message(server)
    _check_rotating(server)
    _check_wrong_questions(server)
    _check_batches(server)
    _check_deleting(server)


def _check_making(server: Server) -> None:
    random = make_inbox(server)
    assert random["id"].startswith("inb_")
    local, _, domain = random["address"].partition("@")
    assert (len(local), domain) == (16, "in.test")
    assert random["expires_at"] is not None

    headers = {"Idempotency-Key": "signup-7"}
    answers = [
        server.api("/v1/inboxes", method="POST", json=body, headers=headers)
        for body in ({"metadata": {"n": 7}}, {"metadata": {"n": 7}}, {"metadata": {"n": 8}})
    ]
    assert [one.status_code for one in answers] == [201, 201, 409]
    assert answers[0].json() == answers[1].json()
    replayed = [one.headers.get("Idempotent-Replayed") for one in answers]
    assert replayed == [None, "true", None]

    several = make_inbox(server, inboxes=[{}, {"local": "one", "domain": "bücher.test"}])["data"]
    assert several[1]["address"] == "one@xn--bcher-kva.test"
    assert server.get("/v1/inboxes", limit=1)["next"] is not None
    shown = server.get(f"/v1/inboxes/{several[1]['address']}")
    assert shown == several[1] | {
        "pending": {"mails": 0, "oldest_at": None, "last_error": None},
        "listening_since": shown["listening_since"],
        "refused": [],
    }
    no_end = server.api("/v1/inboxes", method="POST", json={"ttl_s": None})
    assert (no_end.status_code, "permanent" in no_end.text) == (400, True)


def _check_addresses(server: Server) -> None:
    """Which inbox is meant does not depend on how its address is written, or on the headers."""
    make_inbox(server, local="ann")
    make_inbox(server, local="nn")
    spellings = ["ANN@IN.TEST", "ann+shop@in.test", '"ann"@in.test', "Ann+x+y@in.test"]
    for number, spelling in enumerate(spellings):
        send_mail(server, spelling, subject=f"as {number}")
    with smtplib.SMTP("127.0.0.1", server.smtp_port, timeout=60) as smtp:
        # The recipient stands in the envelope alone.
        smtp.sendmail("shop@example.org", "ann@in.test", b"To: nn@in.test\r\nSubject: bcc\r\n\r\n")
        strangers = ("bann@in.test", "n@in.test", "ann@other.test")
        refused = [_rcpt(smtp, address) for address in strangers]
    send_mail(server, "ONE@xn--bcher-kva.test", subject="idn")

    mails = wait_for_mails(server, "ann@in.test", 5)
    assert [one["subject"] for one in mails] == ["as 0", "as 1", "as 2", "as 3", "bcc"]
    assert [one["seq"] for one in mails] == [1, 2, 3, 4, 5]
    assert refused == [550, 550, 550]
    assert subjects(read(server, "nn@in.test")) == []
    assert subjects(read(server, "one@xn--bcher-kva.test", wait=20)) == ["idn"]
    refusals = server.get("/v1/domains/in.test")["refused"]
    assert {one["address"] for one in refusals} == {"bann@in.test", "n@in.test"}


def _rcpt(smtp: smtplib.SMTP, address: str) -> int:
    smtp.rset()
    smtp.mail("shop@example.org")
    return smtp.rcpt(address)[0]


def _check_quota(server: Server) -> None:
    """A mail that is larger than what is left is refused, also where nobody announced its size."""
    small = make_inbox(server, local="small", bytes_max=300)
    large = make_inbox(server, local="large")
    mail = b"Subject: quota\r\n\r\n%s\r\n"
    with smtplib.SMTP("127.0.0.1", server.smtp_port, timeout=60) as smtp:
        # Whoever greets with HELO announces no size.
        smtp.helo()
        codes = []
        for content in (b"x" * 200, b"y" * 200, b"z" * 400):
            smtp.mail("shop@example.org")
            assert smtp.rcpt(small["address"])[0] == 250
            codes.append(smtp.data(mail % content)[0])
        smtp.sendmail("shop@example.org", [small["address"], large["address"]], mail % (b"b" * 200))

    assert codes == [250, 452, 552]
    wait_for_mails(server, large["id"], 1)
    shown = server.get(f"/v1/inboxes/{small['id']}")
    assert (shown["seq"], len(wait_for_mails(server, small["id"], 1))) == (1, 1)
    wait_for(
        lambda: sum(one["times"] for one in read(server, small["id"]).json()["refused"]) == 3,
        what="the refusals",
    )
    [left] = server.get("/v1/unmatched")["data"]
    adopt = f"/v1/unmatched/{left['id']}/adopt"
    other = make_inbox(server)["id"]
    assert server.api(adopt, method="POST", json={"inbox": other}).status_code == 200
    assert subjects(read(server, other, wait=20)) == ["quota"]


def _check_waiting(server: Server) -> None:
    inbox = make_inbox(server, local="waits")
    nothing = read(server, inbox["id"], wait=0.2).json()
    assert (nothing["data"], nothing["next"], nothing["refused"]) == ([], 0, [])
    assert nothing["listening_since"] is not None
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(read, server, inbox["id"], wait=25)
        following = pool.submit(_follow, server, inbox["id"], 2)
        send_mail(server, inbox["address"], subject="first")
        assert subjects(waiting.result()) == ["first"]
        send_mail(server, inbox["address"], subject="second")
        events = following.result()
    assert [(one["id"], one["data"]["subject"]) for one in events] == [
        ("1", "first"),
        ("2", "second"),
    ]
    assert [one["id"] for one in _follow(server, inbox["id"], 1, last_event_id="1")] == ["2"]


def _follow(
    server: Server, inbox: str, many: int, *, last_event_id: str | None = None
) -> list[dict[str, Any]]:
    """Read so many events of a stream."""
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
    if last_event_id is not None:
        headers["Last-Event-ID"] = last_event_id
    events: list[dict[str, Any]] = []
    fields: dict[str, Any] = {}
    url = f"{server.url}/v1/inboxes/{inbox}/stream"
    with HTTP.stream("GET", url, headers=headers, timeout=60) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        for line in answer.iter_lines():
            name, _, value = line.partition(": ")
            if name in {"event", "id", "data"}:
                fields[name] = json.loads(value) if name == "data" else value
            elif not line and "data" in fields:
                events.append(fields)
                fields = {}
                if len(events) == many:
                    return events
    raise AssertionError(f"the stream ended after {events}")


def _check_searching(server: Server) -> None:
    inbox = make_inbox(server, local="search")["address"]
    for subject in ("Your Code", "100% off", "Rechnung für März"):
        send_mail(server, inbox, subject=subject)
    wait_for_mails(server, inbox, 3)
    cases: list[tuple[dict[str, str], int]] = [
        ({"subject": "your code"}, 1),
        ({"subject": "%"}, 1),
        ({"subject": "_"}, 0),
        ({"subject": "für"}, 1),
        ({"sender": "SHOP@example.org"}, 3),
        ({"sender": "hop@example.org"}, 0),
        ({"sender": "@example.org"}, 3),
        ({"sender": "@ample.org"}, 0),
        ({"sender": "@EXAMPLE.org."}, 3),
        ({"sender": "Shop <shop@example.org.>"}, 3),
        ({"since": "2026-01-01"}, 3),
        ({"until": "2026-01-01"}, 0),
        ({"sender": "@example.org", "subject": "off"}, 1),
    ]
    for params, many in cases:
        assert len(subjects(read(server, inbox, **params))) == many, params


def _check_files(server: Server) -> None:
    inbox = make_inbox(server, local="files")["address"]
    route = {"name": "files", "kind": "poll", "inboxes": [inbox], "inline_bytes_max": 10_000}
    assert server.api("/v1/routes", method="POST", json=route).status_code == 201
    raw = (
        b"From: shop@example.org\r\nSubject: page\r\nMIME-Version: 1.0\r\n"
        b"Content-Type: multipart/mixed; boundary=x\r\n\r\n"
        b"--x\r\nContent-Type: text/plain\r\n\r\nhello\r\n"
        b"--x\r\nContent-Type: text/html\r\n"
        b'Content-Disposition: attachment; filename="a\\"b\xc3\xa4.html"\r\n\r\n'
        b"<script>alert(1)</script>\r\n--x--\r\n"
    )
    put = [
        server.api(
            f"/v1/inboxes/{inbox}/messages", method="POST", content=raw,
            headers={"Content-Type": "message/rfc822"},
        )
        for _ in range(2)
    ]  # fmt: skip
    assert [one.status_code for one in put] == [202, 202]
    assert [one.json()["new"] for one in put] == [True, False]
    [message] = wait_for_mails(server, inbox, 1)
    path = f"/v1/inboxes/{inbox}/messages/{message['id']}"
    assert server.get(path) == message | {"copies": 1}
    whole = server.api(f"{path}/raw")
    [one] = message["attachments"]
    file = server.api(f"{path}/attachments/{one['id']}")

    assert whole.content == raw
    assert whole.headers["content-type"].startswith("message/rfc822")
    assert file.content.strip() == b"<script>alert(1)</script>"
    for answer in (whole, file):
        assert answer.headers["content-disposition"].startswith("attachment;")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in answer.headers["content-security-policy"]
    for wrong in (f"{path}x", f"{path}/attachments/att_0", f"{path}x/raw"):
        assert server.api(wrong).status_code == 404
    reader = server.api("/v1/keys", method="POST", json={"scope": "reader"}).json()["key"]
    headers = {"Authorization": f"Bearer {reader}"}
    view = HTTP.get(server.url + path, headers=headers).json()
    assert (view["view"], view["text"].strip(), "html" in view) == ("reader", "hello", False)
    for hidden in (f"{path}/raw", f"{path}/attachments/{one['id']}"):
        assert HTTP.get(server.url + hidden, headers=headers).status_code == 403
    [sent] = server.get("/v1/routes/files/events")["data"][0]["event"]["message"]["attachments"]
    link = urlsplit(sent["url"])
    fetched = HTTP.get(f"{server.url}{link.path}?{link.query}")
    assert (fetched.content, b64decode(sent["content"])) == (file.content, file.content)
    [owed] = server.get("/v1/deliveries", route="files")["data"]
    for elsewhere in ("/v1/routes/files/events", f"/v1/deliveries/{owed['id']}"):
        shown = HTTP.get(server.url + elsewhere, headers=headers).text
        assert (message["id"] in shown, "PHNjcmlwdD" in shown, "/files/" in shown) == (
            True,
            False,
            False,
        )


def _check_deleting_a_message(server: Server) -> None:
    inbox = make_inbox(server, local="loses")["address"]
    for number in range(1, 5):
        send_mail(server, inbox, subject=f"n{number}")
    mails = wait_for_mails(server, inbox, 4)
    for mail in mails[1:3]:
        gone = server.api(f"/v1/inboxes/{inbox}/messages/{mail['id']}", method="DELETE")
        assert (gone.status_code, gone.json()["messages"]) == (200, 1)
    again = server.api(f"/v1/inboxes/{inbox}/messages/{mails[1]['id']}", method="DELETE")
    told = read(server, inbox, after=1)

    assert again.status_code == 410
    assert "was deleted" in again.json()["detail"]
    assert told.status_code == 410
    problem = told.json()
    assert (problem["lost"], problem["oldest_seq"], problem["next"]) == (2, 4, 3)
    assert told.headers["content-type"] == "application/problem+json"
    assert subjects(read(server, inbox, after=problem["next"])) == ["n4"]
    beyond = read(server, inbox, after=5, wait=25)
    assert (beyond.status_code, "last number" in beyond.text) == (400, True)


def _check_rotating(server: Server) -> None:
    inbox = make_inbox(server, local="old")
    rotated = server.api(
        f"/v1/inboxes/{inbox['id']}/rotate", method="POST", json={"grace_s": 3600}
    ).json()
    send_mail(server, "old@in.test", subject="to the old one")
    send_mail(server, rotated["address"], subject="to the new one")
    assert [one["address"] for one in rotated["former_addresses"]] == ["old@in.test"]
    assert len(wait_for_mails(server, inbox["id"], 2)) == 2

    at_once = server.api(f"/v1/inboxes/{inbox['id']}/rotate", method="POST", json={"grace_s": 0})
    with pytest.raises(smtplib.SMTPRecipientsRefused) as refused:
        send_mail(server, rotated["address"])
    assert at_once.json()["address"] != rotated["address"]
    assert next(iter(refused.value.recipients.values()))[0] == 550
    [told] = read(server, inbox["id"], after=2).json()["refused"]
    assert (told["address"], told["reason"]) == (rotated["address"], "expired")


def _check_wrong_questions(server: Server) -> None:
    make_inbox(server, local="asked")
    wrong = [
        ({"after": "x"}, "`after`"),
        ({"after": "-1"}, "`after`"),
        ({"wait": "26"}, "`wait`"),
        ({"limit": "0"}, "`limit`"),
        ({"wiat": "3"}, "'wiat'"),
        ({"cursor": "x"}, "'cursor'"),
        ({"since": "yesterday"}, "`since`"),
    ]
    for params, word in wrong:
        answer = read(server, "asked@in.test", **params)
        assert (answer.status_code, word in answer.json()["detail"]) == (400, True), params
    bodies: list[Any] = [
        {"local": "a b"}, {"ttl_s": 0}, {"domain": "example.com"}, {"unknown": 1}, [],
        {"inboxes": []}, {"inboxes": [{}] * 1001}, {"inboxes": [{}], "local": "x"},
        {"metadata": {"a": "x" * 5000}},
    ]  # fmt: skip
    for body in bodies:
        assert server.api("/v1/inboxes", method="POST", json=body).status_code == 400, body
    assert server.api("/v1/inboxes", method="POST", json={"local": "asked"}).status_code == 409
    for path in ("inb_x", "nobody@in.test", "%00", "a%2Fb"):
        assert server.api(f"/v1/inboxes/{path}").status_code == 404, path


def _check_batches(server: Server) -> None:
    made = make_inbox(server, inboxes=[{"local": f"b{number}"} for number in range(20)])["data"]
    names = [one["id"] for one in made]
    wanted = {"inboxes": [{"inbox": name} for name in [*names, names[0], "b1@in.test"]]}
    empty = server.api("/v1/inboxes/messages", method="POST", json=wanted).json()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(
            server.api, "/v1/inboxes/messages", method="POST", json={**wanted, "wait": 25}
        )
        send_mail(server, "b3@in.test", "b4@in.test", subject="to two")
        answer = waiting.result().json()
    with_mail = {one["inbox"] for one in answer["data"] if one["data"]}
    missing = server.api(
        "/v1/inboxes/messages", method="POST", json={"inboxes": [{"inbox": "inb_x"}], "wait": 25}
    ).json()["data"]
    deleted = server.api(
        "/v1/inboxes/delete", method="POST", json={"inboxes": [*names, *names, "inb_x"]}
    )

    assert len(empty["data"]) == 20
    assert with_mail <= {names[3], names[4]}
    assert with_mail
    assert missing[0]["problem"]["status"] == 404
    assert deleted.json()["inboxes"] == 20
    assert deleted.json()["missing"] == ["inb_x"]
    assert server.api(f"/v1/inboxes/{names[0]}").status_code == 404


def _check_deleting(server: Server) -> None:
    inbox = make_inbox(server, local="bye")
    send_mail(server, "bye@in.test")
    wait_for_mails(server, inbox["id"], 1)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(read, server, inbox["id"], after=1, wait=25)
        report = server.api(f"/v1/inboxes/{inbox['id']}", method="DELETE").json()
        ended = waiting.result()

    assert ended.status_code == 404
    assert (report["complete"], report["inboxes"], report["mails"]) == (True, 1, 1)
    assert report["bytes"] > 0
    with pytest.raises(smtplib.SMTPRecipientsRefused):
        send_mail(server, "bye@in.test")
    assert make_inbox(server, local="bye")["seq"] == 0


def test_an_expired_inbox_is_gone_and_ends_who_waits_for_it(server: Server) -> None:
    inbox = make_inbox(server, ttl_s=2)

    ended = read(server, inbox["id"], wait=25)

    assert ended.status_code == 404
    assert server.api(f"/v1/inboxes/{inbox['id']}").status_code == 404
    assert inbox["id"] not in server.api("/v1/inboxes").text


def test_streams_are_bounded_revoked_and_end_with_the_server(
    database_url: str, tmp_path: Path
) -> None:
    settings = "[inboxes]\nstreams_max = 2\n"
    with running(Server(tmp_path / "server", database_url, settings)) as server:
        inbox = make_inbox(server)["id"]
        made = server.api("/v1/keys", method="POST", json={"scope": "reader"}).json()
        url = f"{server.url}/v1/inboxes/{inbox}/stream"
        opened = threading.Semaphore(0)

        def follow(key: str) -> str:
            headers = {"Authorization": f"Bearer {key}"}
            with HTTP.stream("GET", url, headers=headers, timeout=60) as answer:
                lines = answer.iter_lines()
                first = next(lines)
                opened.release()
                try:
                    return "\n".join([first, *lines])
                except httpx.RemoteProtocolError:
                    return "cut off"

        with ThreadPoolExecutor(2) as pool:
            streams = [pool.submit(follow, key) for key in (ADMIN_KEY, made["key"])]
            for _ in streams:
                assert opened.acquire(timeout=60)
            full = server.api(f"/v1/inboxes/{inbox}/stream")
            server.api(f"/v1/keys/{made['id']}", method="DELETE")
            put = server.api(
                f"/v1/inboxes/{inbox}/messages", method="POST", content=b"Subject: s3cret\r\n\r\n"
            )
            assert put.status_code == 202
            revoked = streams[1].result(timeout=60)
            assert server.stop() == 0
            ended = streams[0].result(timeout=60)

    assert (full.status_code, "2 streams" in full.text) == (503, True)
    assert "s3cret" not in revoked
    assert "s3cret" in ended


def test_a_client_that_never_reads_its_stream_costs_others_nothing(
    sqlite_template: Path, tmp_path: Path
) -> None:
    shutil.copy(sqlite_template, tmp_path / "data.db")
    url = f"sqlite:///{tmp_path / 'data.db'}"
    settings = "[inboxes]\nstreams_max = 1\n[door]\nanswer_timeout_s = 1\n"
    with running(Server(tmp_path / "server", url, settings)) as server:
        inbox = make_inbox(server)["id"]
        with socket.create_connection(("127.0.0.1", server.port)) as deaf:
            head = f"GET /v1/inboxes/{inbox}/stream HTTP/1.1\r\nHost: x\r\n"
            deaf.sendall(f"{head}Authorization: Bearer {ADMIN_KEY}\r\n\r\n".encode())
            for number in range(60):
                raw = f"Subject: n{number}\r\n\r\n".encode() + b"x" * 200_000
                put = server.api(f"/v1/inboxes/{inbox}/messages", method="POST", content=raw)
                assert put.status_code == 202
            assert len(wait_for_mails(server, inbox, 60)) == 60
            # It is disconnected, and its place is free again.
            wait_for(lambda: _is_streamed(server, inbox), what="room for another stream")


def test_answers_that_nobody_reads_are_bounded_in_all(
    sqlite_template: Path, tmp_path: Path
) -> None:
    shutil.copy(sqlite_template, tmp_path / "data.db")
    url = f"sqlite:///{tmp_path / 'data.db'}"
    settings = "[door]\nunread_bytes_max = 1048576\n"
    raw = b"Subject: large\r\n\r\n" + b"x" * (9 << 20)
    made = Server(tmp_path / "server", url, settings)
    with running(made) as server, contextlib.ExitStack() as deaf:
        inbox = make_inbox(server)["id"]
        put = server.api(f"/v1/inboxes/{inbox}/messages", method="POST", content=raw)
        assert put.status_code == 202
        [message] = wait_for_mails(server, inbox, 1)
        path = f"/v1/inboxes/{inbox}/messages/{message['id']}/raw"
        head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN_KEY}\r\n\r\n"
        for _ in range(4):
            client = deaf.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            client.sendall(head.encode())

        # Each that comes takes the place of the one before.
        wait_for(lambda: _made_room(server) == 3, what="three to make room")

        assert server.api(path).content == raw


def _made_room(server: Server) -> int:
    name = 'mailonce_door_refusals_total{reason="make_room"} '
    lines = server.api("/metrics").text.splitlines()
    return sum(int(float(line.removeprefix(name))) for line in lines if line.startswith(name))


def _is_streamed(server: Server, inbox: str) -> bool:
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
    url = f"{server.url}/v1/inboxes/{inbox}/stream"
    with HTTP.stream("GET", url, headers=headers, timeout=60) as answer:
        return answer.status_code == 200


def test_a_database_that_does_not_answer_is_no_empty_inbox(tmp_path: Path) -> None:
    postgres = start_postgres_in_memory()
    server = Server(tmp_path / "server", postgres.url(), SETTINGS)
    try:
        with running(server):
            inbox = make_inbox(server)["id"]
            before = read(server, inbox)

            postgres.stop()
            after = [read(server, inbox), read(server, inbox, wait=25)]
            wait_for(
                lambda: HTTP.get(f"{server.url}/readyz", timeout=60).status_code == 503,
                what="the server to say that it is not ready",
            )

        assert before.status_code == 200
        assert [one.status_code for one in after] == [503, 503]
        assert all("data" not in one.json() for one in after)
    finally:
        if postgres.process.poll() is None:
            postgres.stop()
