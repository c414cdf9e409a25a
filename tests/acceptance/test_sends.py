"""Mail goes out once, over the API, on both databases; what is refused is told in a sentence."""

import base64
import json
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mailonce.testing.fakes import FakeAct, SmtpAct
from tests.acceptance.harness import ADMIN_KEY, HTTP, Server, running
from tests.acceptance.sending import (
    running_fakes,
    sending_server,
    settle_by_webhooks,
    states,
    submit,
)
from tests.servers import wait_for

LINK = re.compile(r"https://mail\.example\.com(/u/[A-Za-z0-9_-]+)")


@pytest.fixture
def fakes() -> Iterator[dict[str, Any]]:
    with running_fakes("smtp", "postmark") as started:
        yield started


@pytest.fixture
def server(database_url: str, tmp_path: Path, fakes: dict[str, Any]) -> Iterator[Server]:
    streams = {"news": {"unsubscribe": True}, "codes": {"priority": "high"}}
    made = sending_server(
        tmp_path / "server", database_url, fakes,
        environment={"MAILONCE_STREAMS": json.dumps(streams)},
    )  # fmt: skip
    with running(made) as started:
        yield started


def shown(server: Server, id_: str) -> dict[str, Any]:
    send: dict[str, Any] = server.get(f"/v1/sends/{id_}")
    return send


def wait_until(server: Server, id_: str, *words: str) -> dict[str, Any]:
    wait_for(lambda: shown(server, id_)["state"] in words, what=f"{words}")
    return shown(server, id_)


def make_key(server: Server, scope: str) -> dict[str, str]:
    key = server.api("/v1/keys", method="POST", json={"scope": scope}).json()["key"]
    return {"Authorization": f"Bearer {key}"}


def test_a_mail_is_sent_once_however_often_it_is_asked_for(
    server: Server, fakes: dict[str, Any]
) -> None:
    answers = [submit(server) for _ in range(5)]
    sent = wait_until(server, answers[0].json()["id"], "accepted")
    late = submit(server)

    assert {one.status_code for one in answers} == {202}
    assert len({one.json()["id"] for one in (*answers, late)}) == 1
    assert [one.headers.get("idempotent-replayed") for one in answers] == [None] + ["true"] * 4
    assert late.json()["state"] == "accepted"
    [message] = fakes["smtp"].messages
    assert message.mail.recipient == "ann@example.com"
    assert sent["provider_message_id"] == sent["message_id"] == message.mail.message_id
    assert [(one["step"], one["outcome"]) for one in sent["attempts"]] == [("call", "accepted")]
    assert [one["kind"] for one in sent["evidence"]] == ["answer"]
    assert sent["subject"] == "Your order"
    assert sent["correlation_id"] in message.body.decode()


def test_other_content_under_a_key_is_409_and_names_the_fields(server: Server) -> None:
    submit(server)

    other = submit(server, subject="Other", text="Other")
    recipient = submit(server, to="bob@example.com")

    assert (other.status_code, recipient.status_code) == (409, 409)
    assert other.headers["content-type"] == "application/problem+json"
    assert "`subject`, `text`" in other.json()["detail"]
    assert "`to`" in recipient.json()["detail"]
    assert len(server.get("/v1/sends")["data"]) == 1


def test_recipients_of_a_list_are_sends_of_their_own(server: Server, fakes: dict[str, Any]) -> None:
    people = [f"a{number}@example.com" for number in range(1000)]
    time_ = _in_an_hour()

    answer = submit(server, to=people, send_at=time_)
    again = submit(server, to=people[::-1], send_at=time_)
    submit(server, "k-2", to=people[:40])

    data = answer.json()["data"]
    assert [one["to"] for one in data] == people
    assert len({one["id"] for one in data}) == 1000
    assert again.headers["idempotent-replayed"] == "true"
    assert {one["id"] for one in again.json()["data"]} == {one["id"] for one in data}
    assert {one["priority"] for one in data} == {"low"}
    wait_for(lambda: states(server).get("accepted") == 40, what="those of the second list")
    assert len(fakes["smtp"].messages) == 40
    assert {one.mail.recipient for one in fakes["smtp"].messages} == {*people[:40]}


def test_a_cause_has_one_mail_for_each_template(server: Server, fakes: dict[str, Any]) -> None:
    for name in ("receipt", "shipped"):
        new = {"name": name, "subject": f"{name} {{{{ n }}}}", "html": "<p>Order {{ n }}"}
        assert server.api("/v1/templates", method="POST", json=new).status_code == 201
    words: dict[str, Any] = {
        "subject": None,
        "text": None,
        "cause_id": "order-17",
        "variables": {"n": 17},
    }

    one = submit(server, None, template="receipt", **words)
    two = submit(server, None, template="shipped", **words)
    server.api("/v1/templates/receipt", method="PUT", json={"subject": "New", "text": "New"})
    again = submit(server, None, template="receipt", **words)
    changed = submit(server, None, template="receipt", **words | {"variables": {"n": 18}})

    assert one.json()["id"] == again.json()["id"] != two.json()["id"]
    assert (changed.status_code, "`variables`" in changed.json()["detail"]) == (409, True)
    wait_for(lambda: len(fakes["smtp"].messages) == 2, what="both")
    assert sorted(one.mail.subject for one in fakes["smtp"].messages) == [
        "receipt 17",
        "shipped 17",
    ]


def test_templates_are_versioned_and_previewed(server: Server) -> None:
    path = "/v1/templates/hello"
    first = {"name": "hello", "subject": "Hi {{ name }}", "html": "<p>Hi {{ name }}"}
    made = server.api("/v1/templates", method="POST", json=first)
    taken = server.api("/v1/templates", method="POST", json=first)
    same = server.api(path, method="PUT", json={k: v for k, v in first.items() if k != "name"})
    new = server.api(path, method="PUT", json={"subject": "Hello", "text": "Hello {{ name }}"})
    broken = server.api(path, method="PUT", json={"subject": "Hello", "text": "{% if %}"})

    old = server.api(f"{path}@1/preview", method="POST", json={"variables": {"name": "<Ann>"}})
    missing = server.api(f"{path}/preview", method="POST", json={"variables": {}})

    assert (made.status_code, taken.status_code) == (201, 409)
    assert (same.json()["version"], new.json()["version"]) == (1, 2)
    assert (broken.status_code, "line 1" in broken.json()["detail"]) == (400, True)
    assert old.json() == {
        "subject": "Hi <Ann>", "html": "<p>Hi &lt;Ann&gt;", "text": "Hi <Ann>\n"
    }  # fmt: skip
    assert (missing.status_code, "'name' is undefined" in missing.json()["detail"]) == (400, True)
    listed = server.get("/v1/templates")["data"]
    assert [(one["name"], one["version"]) for one in listed] == [("hello", 2)]
    assert [one["version"] for one in server.get(path)["versions"]] == [2, 1]
    assert server.api(path, method="DELETE").status_code == 204
    assert server.api(path).status_code == 404


def test_what_cannot_be_sent_is_refused_with_a_sentence(
    server: Server, subtests: pytest.Subtests
) -> None:
    loops = "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}"
    for name, html in {"loops": loops, "reaches": "{{ ''.__class__ }}"}.items():
        new = {"name": name, "subject": "a", "html": html}
        assert server.api("/v1/templates", method="POST", json=new).status_code == 201
    large = base64.b64encode(b"x" * (25 << 20)).decode()
    medium = base64.b64encode(b"x" * (11 << 20)).decode()
    templated = {"subject": None, "text": None}
    refused: dict[str, tuple[int, dict[str, Any]]] = {
        "`subject` has a line break": (400, {"subject": "a\r\nBcc: b@c.d"}),
        "`headers.X-A` has a line break": (400, {"headers": {"X-A": "b\nBcc: c@d.e"}}),
        "`to` has 'nobody'": (400, {"to": "nobody"}),
        "`from name` has a line break": (400, {"from": "A\nBcc: b@c.d <a@b.c>"}),
        "too large for this path": (413, {"attachments": [{"name": "a", "content": large}]}),
        "the limit is 10485760": (413, {"attachments": [{"name": "a", "content": medium}]}),
        "loop over less": (400, {"template": "loops", **templated}),
        "templates cannot reach that": (400, {"template": "reaches", **templated}),
        "there is no template": (404, {"template": "nope", **templated}),
        "there is no sender 'nope'": (404, {"sender": "nope"}),
        "`to` is wrong": (400, {"to": 5}),
        "`attachments[0]` has no field `filename`; use name, content, type, content_id": (
            400,
            {"attachments": [{"filename": "a.pdf", "content": "aGk="}]},
        ),
        "the body has no field `body`; use to, from, subject,": (400, {"body": "Hi"}),
        "`colour`": (400, {"colour": "red"}),
        "`send_at` is 'soon'": (400, {"send_at": "soon"}),
    }
    for words, (code, changes) in refused.items():
        with subtests.test(words):
            answer = submit(server, **changes)
            assert (answer.status_code, words in answer.text) == (code, True), answer.text[:500]
    keyless = submit(server, None)
    assert (keyless.status_code, "`Idempotency-Key`" in keyless.json()["detail"]) == (400, True)
    assert server.get("/v1/sends")["data"] == []
    # What was refused took no key.
    assert submit(server).status_code == 202


def test_an_unknown_send_is_settled_by_webhook_and_joins_its_timeline(
    server: Server, fakes: dict[str, Any]
) -> None:
    fake = fakes["postmark"]
    fake.lists_late = True
    fake.script(FakeAct.ACCEPT_AND_BREAK)
    sent = submit(server, sender="postmark").json()
    unknown = wait_until(server, sent["id"], "unknown")

    settle_by_webhooks(server, fake, "postmark", now_s=int(time.time()))
    accepted = shown(server, sent["id"])

    [message] = fake.messages
    assert unknown["provider_message_id"] is None
    assert (accepted["state"], accepted["provider_message_id"]) == ("accepted", message.id)
    assert accepted["evidence"][-1]["kind"] == "event"
    assert len(fake.sends) == 1
    timeline = server.get(f"/v1/messages/{message.id}")["recipients"][0]["timeline"]
    assert [(one["kind"], one["id"]) for one in timeline] == [
        ("send", sent["id"]), ("event", accepted["evidence"][-1]["event"])
    ]  # fmt: skip


def test_people_cancel_resolve_and_resend_and_all_of_it_is_kept(
    server: Server, fakes: dict[str, Any]
) -> None:
    later = submit(server, send_at="2099-01-01T00:00:00Z")
    assert later.status_code == 400
    waiting = submit(server, "k-2", send_at=_in_an_hour()).json()
    cancelled = server.api(f"/v1/sends/{waiting['id']}/cancel", method="POST").json()
    fakes["smtp"].script(SmtpAct.BREAK)
    lost = submit(server, "k-3").json()
    wait_until(server, lost["id"], "unknown")
    too_late = server.api(f"/v1/sends/{lost['id']}/cancel", method="POST")
    said = {"outcome": "not_sent", "reason": "asked the postmaster"}
    refused = server.api(f"/v1/sends/{lost['id']}/resolve", method="POST", json=said).json()
    server.api(f"/v1/sends/{lost['id']}/resend", method="POST")
    done = wait_until(server, lost["id"], "accepted")
    again = server.api(f"/v1/sends/{lost['id']}/resolve", method="POST", json={"outcome": "sent"})

    assert (cancelled["state"], too_late.status_code) == ("cancelled", 409)
    assert submit(server, "k-2", send_at=_in_an_hour()).json()["state"] == "cancelled"
    assert (refused["state"], refused["reason"]) == ("refused", "asked the postmaster")
    acts = [one for one in done["evidence"] if one["by"]]
    assert [(one["kind"], one["reason"]) for one in acts] == [
        ("resolved_not_sent", "asked the postmaster"),
        ("resent", "it was refused (asked the postmaster)"),
    ]
    assert {one["by_name"] for one in acts} == {"MAILONCE_ADMIN_KEY"}, (
        "people know a key by its name"
    )
    assert (again.status_code, again.json()["state"]) == (200, "accepted")
    assert len(fakes["smtp"].messages) == 1


def test_a_key_does_what_its_scope_says_and_nothing_of_another_workspace(server: Server) -> None:
    sent = submit(server).json()
    sender, reader = make_key(server, "sender"), make_key(server, "reader")
    other = server.api("/v1/workspaces", method="POST", json={"name": "other"}).json()
    stranger = {"Authorization": f"Bearer {other['key']}"}
    path = f"/v1/sends/{sent['id']}"

    def code(method: str, path: str, headers: dict[str, str], **body: Any) -> int:
        return HTTP.request(method, server.url + path, headers=headers, **body).status_code

    mail = {"to": "a@b.c", "from": "a@b.c", "subject": "a", "text": "a", "cause_id": "c"}
    assert code("POST", "/v1/sends", sender, json=mail) == 202
    assert code("GET", path, sender) == code("GET", path, reader) == 200
    assert code("POST", "/v1/sends", reader, json=mail) == 403
    assert code("POST", "/v1/sends", sender, json={**mail, "ignore_suppressions": True}) == 403
    assert code("POST", f"{path}/resolve", sender, json={"outcome": "sent"}) == 403
    assert code("GET", "/v1/events", sender) == code("GET", "/v1/senders", sender) == 403
    assert code("GET", path, stranger) == code("POST", f"{path}/cancel", stranger) == 404
    assert code("GET", "/v1/senders/smtp", stranger) == 404
    assert code("POST", "/v1/sends", stranger, json=mail) == 400
    assert HTTP.get(f"{server.url}/v1/sends", headers=stranger).json()["data"] == []


def test_senders_are_made_changed_switched_and_never_show_their_credentials(
    server: Server,
) -> None:
    new = {"name": "api", "provider": "resend", "secret": "re_123456", "next_sender": "smtp"}
    made = server.api("/v1/senders", method="POST", json=new)
    changed = server.api(
        "/v1/senders/api", method="PUT", json={"provider": "resend", "rate_per_s": 2}
    )
    circle = server.api(
        "/v1/senders/api", method="PUT", json={"provider": "resend", "next_sender": "api"}
    )
    other = server.api("/v1/senders/api", method="PUT", json={"provider": "postmark"})
    unknown = server.api("/v1/senders", method="POST", json={"name": "x", "provider": "pigeon"})
    off = server.api("/v1/senders/smtp/off", method="POST", json={"reason": "maintenance"})
    waiting = submit(server, sender="smtp").json()
    busy = server.api("/v1/senders/smtp", method="DELETE")
    server.api("/v1/senders/smtp/on", method="POST")

    assert made.status_code == 201
    assert "re_123456" not in made.text
    assert (changed.json()["secrets"], changed.json()["rate_per_s"]) == (1, 2)
    assert (circle.status_code, "circle" in circle.json()["detail"]) == (400, True)
    assert (other.status_code, "make another" in other.json()["detail"]) == (400, True)
    assert (unknown.status_code, "'pigeon' cannot send" in unknown.json()["detail"]) == (400, True)
    assert (off.json()["on"], off.json()["off_reason"]) == (False, "maintenance")
    assert (busy.status_code, "1 mails" in busy.json()["detail"]) == (400, True)
    wait_until(server, waiting["id"], "accepted")
    assert server.api("/v1/senders/api", method="DELETE").status_code == 204
    assert [one["name"] for one in server.get("/v1/senders")["data"]] == ["smtp", "postmark"]


def test_one_click_unsubscribes_from_its_stream_and_a_forged_link_from_nothing(
    server: Server, fakes: dict[str, Any]
) -> None:
    sent = submit(server, stream="news").json()
    wait_until(server, sent["id"], "accepted")
    [message] = fakes["smtp"].messages
    unfolded = message.body.decode().replace("\r\n ", "").replace("\r\n\t", "")
    match = LINK.search(unfolded)
    assert match is not None
    assert "List-Unsubscribe-Post: List-Unsubscribe=One-Click" in unfolded
    link = server.url + match[1]

    page = HTTP.get(link)
    untouched = server.get("/v1/suppressions/ann@example.com")["suppressed"]
    forged = HTTP.post(link[:-3] + "AAA", data={"List-Unsubscribe": "One-Click"})
    large = HTTP.post(link, content=b"x" * 5_000)
    clicks = [HTTP.post(link, data={"List-Unsubscribe": "One-Click"}) for _ in range(2)]
    news, codes = (
        submit(server, f"k-{stream}", stream=stream).json() for stream in ("news", "codes")
    )

    assert (page.status_code, "Unsubscribe" in page.text, untouched) == (200, True, False)
    assert (forged.status_code, large.status_code) == (401, 413)
    assert [one.status_code for one in clicks] == [200, 200]
    [event] = server.get("/v1/events", type="unsubscribed")["data"]
    assert (event["recipient"], event["metadata"]) == ("ann@example.com", {"send": sent["id"]})
    [cause] = server.get("/v1/suppressions/ann@example.com")["causes"]
    assert (cause["cause"], cause["stream"]) == ("unsubscribe", "news")
    assert (news["state"], codes["state"]) == ("suppressed", "pending")
    wait_until(server, codes["id"], "accepted")


def test_a_click_counts_again_once_its_reader_has_subscribed_again(
    server: Server, fakes: dict[str, Any]
) -> None:
    sent = submit(server, stream="news").json()
    wait_until(server, sent["id"], "accepted")
    [message] = fakes["smtp"].messages
    match = LINK.search(message.body.decode().replace("\r\n ", ""))
    assert match is not None
    link = server.url + match[1]

    HTTP.post(link)
    server.api("/v1/suppressions/ann@example.com", method="DELETE")
    subscribed = submit(server, "k-2", stream="news").json()
    HTTP.post(link)
    again = submit(server, "k-3", stream="news").json()

    assert (subscribed["state"], again["state"]) == ("pending", "suppressed")


def test_lists_are_filtered(server: Server) -> None:
    submit(server, "k-1", to="ann@example.com", stream="news", cause_id="c-1")
    submit(server, "k-2", to="bob@example.com")
    wait_for(lambda: states(server) == {"accepted": 2}, what="both")

    def keys(**params: Any) -> list[str]:
        return [one["key"] for one in server.get("/v1/sends", **params)["data"]]

    assert keys() == ["k-2", "k-1"]
    assert keys(recipient="Ann@Example.com") == keys(stream="news") == keys(cause_id="c-1")
    assert (keys(state="unknown"), keys(key="k-2"), keys(sender="smtp")) == ([], ["k-2"], keys())
    page = server.get("/v1/sends", limit=1)
    assert [one["key"] for one in page["data"]] == ["k-2"]
    assert keys(cursor=page["next"]) == ["k-1"]
    assert server.api("/v1/sends", params={"state": "lost"}).status_code == 400


def _in_an_hour() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))


def test_a_request_with_two_keys_is_refused_and_strangers_are_not_read(
    server: Server, subtests: pytest.Subtests
) -> None:
    body = json.dumps({"to": "ann@example.com", "from": "a@b.cd", "subject": "s", "text": "t"})
    key = {"Authorization": f"Bearer {ADMIN_KEY}", "Content-Type": "application/json"}
    cases: dict[str, tuple[list[tuple[str, str]], int]] = {
        "the same name twice": ([("Idempotency-Key", "a"), ("Idempotency-Key", "b")], 400),
        "both names": ([("Idempotency-Key", "a"), ("X-Idempotency-Key", "b")], 400),
        "the same key twice": ([("Idempotency-Key", "a"), ("X-Idempotency-Key", "a")], 202),
    }
    for name, (given, code) in cases.items():
        with subtests.test(name):
            headers = [*key.items(), *given]
            answer = HTTP.post(f"{server.url}/v1/sends", content=body, headers=headers)
            assert answer.status_code == code, answer.text
    for scope, code in {"reader": 403, "agent": 403, "sender": 202}.items():
        with subtests.test(scope):
            headers = list((make_key(server, scope) | {"Idempotency-Key": "a"}).items())
            answer = HTTP.post(f"{server.url}/v1/sends", content=body, headers=headers)
            assert answer.status_code == code, answer.text
    stranger = HTTP.post(f"{server.url}/v1/sends", content=body)
    empty = server.api("/v1/sends", method="POST", headers={"Idempotency-Key": "b"})
    assert (stranger.status_code, empty.status_code) == (401, 400)
    assert stranger.headers["connection"] == "close"
    assert len(server.get("/v1/sends")["data"]) == 1


def _packet(body: bytes, *headers: str, key: str = ADMIN_KEY, length: int | None = None) -> bytes:
    lines = [
        "POST /v1/sends HTTP/1.1", "Host: here", f"Authorization: Bearer {key}", *headers,
        f"Content-Length: {len(body) if length is None else length}", "", "",
    ]  # fmt: skip
    return "\r\n".join(lines).encode() + body


def _answers(server: Server, *packets: bytes) -> list[tuple[int, dict[str, str], Any]]:
    """Write each packet at once, as our short way takes it; read as many answers."""
    answers = []
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        for packet in packets:
            connection.sendall(packet)
        stream = connection.makefile("rb")
        for _ in packets:
            code = int(stream.readline().split()[1])
            lines = iter(lambda: stream.readline().strip().decode(), "")
            headers = dict(line.lower().split(": ", 1) for line in lines)
            content = stream.read(int(headers["content-length"]))
            answers.append((code, headers, json.loads(content)))
    return answers


def test_a_request_in_one_packet_is_answered_as_any_other(
    server: Server, subtests: pytest.Subtests
) -> None:
    mail = {"to": "ann@example.com", "from": "a@b.cd", "subject": "s", "text": "t"}
    body = json.dumps(mail).encode()
    first, again, other = _answers(
        server,
        _packet(body, "Idempotency-Key: k-1"),
        _packet(body, "Idempotency-Key: k-1"),
        _packet(json.dumps({**mail, "text": "other"}).encode(), "Idempotency-Key: k-1"),
    )
    long_way = submit(server, "k-1", **mail)

    assert (first[0], again[0], other[0]) == (202, 202, 409)
    assert first[2]["id"] == again[2]["id"] == long_way.json()["id"]
    assert (first[1].get("idempotent-replayed"), again[1]["idempotent-replayed"]) == (None, "true")
    assert other[1]["content-type"] == "application/problem+json"
    assert other[2]["type"] == "urn:mailonce:key_reuse"
    reader = make_key(server, "reader")["Authorization"].removeprefix("Bearer ")
    cases: dict[str, tuple[bytes, int]] = {
        "no key of the mail": (_packet(body), 400),
        "no JSON": (_packet(b"{", "Idempotency-Key: k-2"), 400),
        "two keys": (_packet(body, "Idempotency-Key: a", "X-Idempotency-Key: b"), 400),
        "one name twice": (_packet(body, "Idempotency-Key: a", "Idempotency-Key: b"), 400),
        "a key that reads": (_packet(body, "Idempotency-Key: a", key=reader), 403),
        "another workspace": (_packet(body, "Idempotency-Key: a", "Mailonce-Workspace: no"), 404),
        "a list": (_packet(body.replace(b'"ann@example.com"', b'["bob@example.com"]'),
                           "Idempotency-Key: k-3"), 202),
    }  # fmt: skip
    for name, (packet, code) in cases.items():
        with subtests.test(name):
            [answer] = _answers(server, packet)
            assert answer[0] == code, answer
    [stranger] = _answers(server, _packet(body, "Idempotency-Key: a", key="mok_unknown"))
    assert (stranger[0], stranger[1]["connection"]) == (401, "close")
    assert len(server.get("/v1/sends")["data"]) == 2
