"""What a client may take of the door: each limit is kept, and whoever is above it hears why."""

import json
import re
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.acceptance.harness import ADMIN_KEY, HTTP, SETTINGS, Server, event, running, signed
from tests.acceptance.lines import connect, hear, heard, resident_mb, send_all, webhook
from tests.servers import wait_for
from tests.stopwatch import Stopwatch

LIMITS = """
[door]
address_connections_max = 60
held_bytes_max = 16777216
head_timeout_s = 1.5
body_timeout_s = 1.5
idle_timeout_s = 3
answer_timeout_s = 2
"""
UNPROVEN = [("X-A", "b")]
TEN_MB = 10 << 20


@pytest.fixture(scope="module")
def door(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server with little patience for all tests: none of them may harm the next."""
    folder = tmp_path_factory.mktemp("door")
    shutil.copy(sqlite_template, folder / "data.db")
    server = Server(folder / "server", f"sqlite:///{folder / 'data.db'}", SETTINGS + LIMITS)
    with running(server) as started:
        yield started


@pytest.mark.parametrize(
    "request_",
    [
        b"POST /in/x HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
    ids=["arrivals", "API"],
)
def test_pipelined_requests_whose_answers_nobody_reads_are_read_no_further(
    door: Server, request_: bytes
) -> None:
    before = resident_mb(door)
    with connect(door, buffer=4096) as line:
        line.settimeout(1.5)
        sent, block = 0, request_ * 500
        while sent < 40 << 20 and send_all(line, block):
            sent += len(block)

        assert sent < 40 << 20, "the door must stop reading"
        assert resident_mb(door) < before + 30


@pytest.mark.parametrize(
    "line", ["POST /in/main", "GET /healthz", "POST /v1/sends", "GET /v1/inboxes/a/messages?wait=1"]
)
def test_a_request_names_one_host(door: Server, line: str, subtests: pytest.Subtests) -> None:
    """RFC 9112, 3.2: a proxy may go by another of two than we would."""
    hosts = {"none": "", "two": "Host: a\r\nX-A: b\r\nhost: a\r\n", "one": "Host: a\r\n"}
    for version in ("1.1", "1.0"):
        for name, host in hosts.items():
            is_wrong = name == "two" or (name, version) == ("none", "1.1")
            wire = f"{line} HTTP/{version}\r\n{host}Content-Length: 0\r\n\r\n"
            with subtests.test(f"{version} {name}"), connect(door) as connection:
                connection.sendall(wire.encode())
                answer = hear(connection)
                assert answer.startswith(b"HTTP/1.1 400 ") is is_wrong
                assert not is_wrong or b"one Host header" in answer + heard(connection)


def test_many_pipelined_requests_are_answered_in_their_order(door: Server) -> None:
    bodies = [json.dumps(event(f"p{n}")).encode() for n in range(300)]
    wire = b"".join(
        webhook(body, UNPROVEN if n % 3 == 1 else signed(body).items())
        + (b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" if n % 3 == 2 else b"")
        for n, body in enumerate(bodies)
    )
    with connect(door) as line:
        threading.Thread(target=send_all, args=(line, wire), daemon=True).start()
        answer = hear(line, 400)

    codes = [int(part[:3]) for part in answer.split(b"HTTP/1.1 ")[1:]]
    assert codes == [200, 401, 200, 200] * 100


def test_a_body_does_not_outlive_its_answer(door: Server) -> None:
    before = resident_mb(door)
    lines = []
    for _ in range(30):
        line = connect(door)
        lines.append(line)
        assert send_all(line, webhook(b"x" * (TEN_MB - 100), UNPROVEN))
        assert hear(line).startswith(b"HTTP/1.1 401 ")

    assert resident_mb(door) < before + 60, "thirty idle connections hold their last bodies"
    for line in lines:
        line.close()


def test_what_is_half_sent_has_a_time_limit(door: Server) -> None:
    head = b"POST /in/main HTTP/1.1\r\nHost: x\r\nX-A: "
    body = b"POST /in/main HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nx"
    api = b"POST /v1/keys HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n" % ADMIN_KEY.encode()
    api += b"Content-Length: 10\r\n\r\n{"
    lines = {name: connect(door) for name in ("silent", "head", "body", "api", "idle")}
    for name, sent in (("head", head), ("body", body), ("api", api)):
        lines[name].sendall(sent)
    lines["idle"].sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")

    answers = {name: heard(line) for name, line in lines.items()}

    assert answers["silent"] == b""
    assert answers["idle"].startswith(b"HTTP/1.1 200 ")
    for name in ("head", "body", "api"):
        assert answers[name].startswith(b"HTTP/1.1 408 "), name
        assert b"application/problem+json" in answers[name]
        assert b"connection: close" in answers[name]
    for line in lines.values():
        line.close()


def test_a_body_that_trickles_is_cut_off_and_one_at_pace_is_taken(door: Server) -> None:
    body = json.dumps(event("slow", padding="x" * 200_000)).encode()
    wire = webhook(body, signed(body).items())
    with connect(door) as quick, connect(door) as slow:
        slow.sendall(webhook(b"x" * 1000, UNPROVEN)[:-900])
        began = time.monotonic()
        for start in range(0, len(wire), 20_000):
            quick.sendall(wire[start : start + 20_000])
            send_all(slow, b"x")
            time.sleep(0.25)

        assert hear(quick).startswith(b"HTTP/1.1 200 "), time.monotonic() - began
        assert heard(slow).startswith(b"HTTP/1.1 408 ")


def test_all_that_is_half_sent_together_has_a_limit(door: Server) -> None:
    before = resident_mb(door)
    lines = []
    for _ in range(30):
        line = connect(door)
        lines.append(line)
        send_all(line, webhook(b"x" * (TEN_MB - 100), UNPROVEN)[: TEN_MB - 1000])
    after = resident_mb(door)
    codes = {heard(line)[9:12] for line in lines}
    for line in lines:
        line.close()

    assert after < before + 80, "300 MB were sent, 16 MB may be held"
    assert codes <= {b"503", b"408"}
    assert b"503" in codes
    assert door.post(event("after the flood")).status_code == 200


@pytest.mark.parametrize("path", ["/in/main", "/v1/events"])
def test_heads_have_a_limit_in_bytes_and_in_headers(door: Server, path: str) -> None:
    start = f"POST {path} HTTP/1.1\r\nHost: x\r\n".encode()
    many = start + b"".join(b"X-%d: v\r\n" % n for n in range(200)) + b"\r\n"
    with connect(door) as long, connect(door) as count, connect(door) as whole:
        long.sendall(start + b"X-A: ")
        while send_all(long, b"v" * 4096):
            if len(
                long.recv(1 << 16, socket.MSG_PEEK | socket.MSG_DONTWAIT)
                if _readable(long)
                else b""
            ):
                break
        count.sendall(many[:-2])
        whole.sendall(many)

        for line in (long, count, whole):
            assert heard(line).startswith(b"HTTP/1.1 431 ")


def _readable(line: socket.socket) -> bool:
    import select

    return bool(select.select([line], [], [], 0)[0])


def test_trailers_and_extensions_of_chunks_have_a_limit(door: Server) -> None:
    head = b"POST /in/main HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    before = resident_mb(door)
    for flood in (b"0\r\n" + b"X-T: v\r\n" * 20_000, b"5;" + b"e" * 200_000):
        with connect(door) as line:
            line.sendall(head)
            send_all(line, flood)

            assert heard(line).startswith(b"HTTP/1.1 4")
    assert resident_mb(door) < before + 20


def test_too_many_connections_of_one_address_hear_429_and_others_do_not(door: Server) -> None:
    lines = [connect(door, address="127.0.0.9") for _ in range(80)]
    try:
        assert heard(lines[-1]).startswith(b"HTTP/1.1 429 ")
        assert door.post(event("from elsewhere")).status_code == 200
        # Those that have waited for a second make room.
        time.sleep(1.2)
        with connect(door, address="127.0.0.9") as late:
            late.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert hear(late).startswith(b"HTTP/1.1 200 ")
    finally:
        for line in lines:
            line.close()


def test_unread_answers_do_not_keep_a_connection(door: Server) -> None:
    with connect(door, buffer=4096) as line:
        line.settimeout(1)
        while send_all(line, b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 200):
            pass
        wait_for(lambda: b'reason="answer_timeout"' in _metrics(door), what="the end")


def test_the_api_takes_no_body_without_a_key_and_only_a_small_one_with_it(door: Server) -> None:
    head = "POST /v1/routes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    key = f"Authorization: Bearer {ADMIN_KEY}\r\n"
    large, small = "Content-Length: 400000000\r\n\r\n", "Content-Length: 200000\r\n\r\n"
    chunked = "Transfer-Encoding: chunked\r\n\r\n"
    expected = [
        (head + large, b"413"),
        (head + key + large, b"413"),
        (head + small, b"401"),
        (head + chunked, b"401"),
        (head + "Authorization: Bearer wrong\r\n" + small, b"401"),
        (head + key + chunked + "50000\r\n" + " " * 0x50000 + "\r\n", b"413"),
    ]
    before = resident_mb(door)
    for wire, code in expected:
        with connect(door) as line:
            send_all(line, wire.encode())
            answer = heard(line)

            assert answer[9:12] == code, wire[:200]
            assert b"application/problem+json" in answer
    assert resident_mb(door) < before + 20


@pytest.mark.parametrize("path", ["/webhook", "/postmark", "/inn/postmark", "/"])
def test_a_webhook_to_no_path_of_ours_hears_where_webhooks_go(door: Server, path: str) -> None:
    def count() -> float:
        metrics = httpx.get(f"{door.url}/metrics").text
        return float(re.findall(r"^mailonce_unknown_sources_total (\S+)", metrics, re.MULTILINE)[0])

    before = count()

    answer = httpx.post(f"{door.url}{path}", json={"RecordType": "Bounce"})

    assert answer.status_code == 404
    assert "webhooks are posted to /in/SOURCE" in answer.json()["detail"]
    assert count() == before + 1


def test_a_client_that_half_closes_hears_its_answer(door: Server) -> None:
    body = json.dumps(event("half closed")).encode()
    for wire in (webhook(body, signed(body).items()), b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"):
        with connect(door) as line:
            line.sendall(wire)
            line.shutdown(socket.SHUT_WR)

            assert heard(line).startswith(b"HTTP/1.1 200 ")


def test_a_wish_for_another_protocol_is_ignored_and_the_body_read(door: Server) -> None:
    body = json.dumps(event("h2c")).encode()
    upgrade = [("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c")]
    with connect(door) as line:
        line.sendall(webhook(body, [*signed(body).items(), *upgrade]))
        line.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")

        answers = hear(line, 2)

    assert answers.count(b"HTTP/1.1 200 ") == 2
    assert any(row["message_id"] == "mh2c" for row in door.all_events())


def test_expect_100_is_answered_before_the_body(door: Server) -> None:
    body = json.dumps(event("expect")).encode()
    wire = webhook(body, [*signed(body).items(), ("Expect", "100-continue")])
    with connect(door) as line:
        line.sendall(wire[: -len(body)])
        assert hear(line).startswith(b"HTTP/1.1 100 ")
        line.sendall(body)
        assert hear(line).startswith(b"HTTP/1.1 200 ")


def test_tls_to_the_plain_port_is_refused_at_once(door: Server) -> None:
    with connect(door) as line:
        with Stopwatch() as watch:
            line.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
            answer = heard(line)

        assert answer.startswith(b"HTTP/1.1 400 ")
        assert watch.seconds < 1


def test_no_answer_names_the_host_that_the_caller_claims(door: Server) -> None:
    for path in ("/v1/routes/", "/v1/events/", "/static", "/docs/", "//evil.test/v1"):
        answer = HTTP.get(door.url + path, headers={"Host": "evil.test"}, follow_redirects=False)

        assert answer.status_code in {401, 404, 405}, path
        assert "location" not in answer.headers


def test_metrics_without_a_key_name_no_source(door: Server) -> None:
    door.post(event("counted"))

    named, summed = door.api("/metrics"), HTTP.get(f"{door.url}/metrics")
    refused = HTTP.get(f"{door.url}/metrics", headers={"Authorization": "Bearer wrong"})

    assert 'mailonce_arrivals_total{source="src_main",status="accepted"}' in named.text
    assert 'mailonce_arrivals_total{status="accepted"}' in summed.text
    assert "src_main" not in summed.text
    assert "mailonce_connections " in summed.text
    assert refused.status_code == 401


def test_what_is_refused_is_counted_and_logged(door: Server) -> None:
    with connect(door) as line:
        line.sendall(b"GARBAGE\r\n\r\n")
        heard(line)

    wait_for(lambda: "door_refused" in door.log, what="the log line")
    assert b'mailonce_door_refusals_total{reason="not_http"}' in _metrics(door)


def _metrics(server: Server) -> bytes:
    return HTTP.get(f"{server.url}/metrics").content


def test_at_the_file_limit_the_door_still_answers(tmp_path: Path) -> None:
    limited = tmp_path / "limited.py"
    limited.write_text(
        "import resource\n"
        "from mailonce.__main__ import main\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))\n"
        "main()\n"
    )
    database = f"sqlite:///{tmp_path / 'm.db'}"
    server = Server(tmp_path / "server", database, launcher=(str(limited),))
    with running(server):
        lines = []
        for n in range(260):
            line = connect(server, address=f"127.0.0.{2 + n % 3}")
            send_all(line, (b"", b"POST /in/main HTTP/1.1\r\nX-A: ")[n % 2])
            lines.append(line)
        codes = [server.post(event(n)).status_code for n in range(5)]
        time.sleep(1.2)
        codes += [server.post(event(5 + n)).status_code for n in range(5)]
        for line in lines:
            line.close()

        assert set(codes) <= {200, 503}
        assert codes[5:] == [200] * 5, "those that wait make room"
        assert "files_few" in server.log
        assert "door_refused" in server.log


def test_a_stop_does_not_wait_for_what_is_half_sent(tmp_path: Path) -> None:
    chunk = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
    head = b"POST /in/main HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    with running(Server(tmp_path / "server", f"sqlite:///{tmp_path / 'm.db'}")) as server:
        grown, half = connect(server), connect(server)
        with grown, half:
            # Pipelined, and above the limit only after its head was read.
            grown.sendall(webhook(b"{}", UNPROVEN) + head)
            hear(grown)
            send_all(grown, chunk * 12)
            answer = heard(grown)
            half.sendall(head + chunk)
            time.sleep(0.3)
            with Stopwatch() as watch:
                code = server.stop()

            assert answer.startswith(b"HTTP/1.1 413 ")
            assert code == 0
            assert watch.seconds < 8
            assert heard(half).startswith(b"HTTP/1.1 503 ")
