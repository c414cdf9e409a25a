"""What cannot be sent is refused with a sentence, and nothing of it is stored."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.harness import Server, running
from tests.acceptance.sending import running_fakes, sending_server, submit
from tests.acceptance.sql import query
from tests.servers import wait_for

LIMIT = 25 << 20
TABLES = ("sends", "send_contents", "send_requests", "send_acts", "send_attempts")
TEMPLATES = {
    "loops": "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}",
    "grows": "{{ 'x' * 999999999 }}",
    "reaches": "{{ ''.__class__.__mro__ }}",
    "reaches-out": "{{ cycler.__init__.__globals__ }}",
    "plain": "Hi {{ name }}",
}


@pytest.fixture
def fakes() -> Iterator[dict[str, Any]]:
    with running_fakes("smtp", "postmark") as started:
        yield started


@pytest.fixture
def limit(request: pytest.FixtureRequest) -> int:
    """What one mail may have; as a test says."""
    return int(getattr(request, "param", LIMIT))


@pytest.fixture
def server(
    database_url: str, tmp_path: Path, fakes: dict[str, Any], limit: int
) -> Iterator[Server]:
    sends = {"mail_bytes_max": limit, "request_bytes_max": 2 * limit}
    made = sending_server(tmp_path / "server", database_url, fakes, sends=sends)
    with running(made) as started:
        yield started


def stored(server: Server) -> dict[str, int]:
    return {
        table: query(server.database, f"SELECT count(*) FROM {table}")[0][0] for table in TABLES
    }


def attached(size: int) -> dict[str, Any]:
    content = base64.b64encode(bytes(size)).decode()
    return {"text": "", "attachments": [{"name": "a.bin", "content": content}]}


def test_injections_bad_addresses_and_hostile_templates_leave_nothing(
    server: Server, subtests: pytest.Subtests
) -> None:
    for name, html in TEMPLATES.items():
        new = {"name": name, "subject": "Hi {{ name }}", "html": html}
        assert server.api("/v1/templates", method="POST", json=new).status_code == 201
    end, words = "a\r\nBcc: eve@example.com", {"subject": None, "text": None}
    file = {"name": end, "content": ""}
    refused: dict[str, dict[str, Any]] = {
        "`subject` has a line break": {"subject": end},
        "`from name` has a line break": {"from": {"address": "a@b.cd", "name": end}},
        "`to name` has a line break": {"to": {"address": "a@b.cd", "name": end}},
        "`reply_to` has": {"reply_to": end},
        "`headers.X-A` has a line break": {"headers": {"X-A": end}},
        "which is no name of a header": {"headers": {"X-A: b\r\nBcc": "c"}},
        "which the mail or its provider sets": {"headers": {"Bcc": "eve@example.com"}},
        "`attachments.name` has a line break": {"attachments": [file]},
        "`tags` has": {"tags": [end]},
        "`metadata.a` has a line break": {"metadata": {"a": end}},
        "`stream` has a line break": {"stream": end},
        "the template makes it": {"template": "plain", "variables": {"name": end}, **words},
        "`to` has 'nobody', which is no address": {"to": "nobody"},
        "`to` has 'a@-b.cd', whose domain": {"to": "a@-b.cd"},
        "`to` has 'a b@c.de', whose part before": {"to": "a b@c.de"},
        "which is too long": {"to": "a" * 65 + "@b.cd"},
        "twice; name each address once": {"to": ["a@b.cd", "A@B.cd"]},
        "give 1 to 1000": {"to": [f"a{number}@b.cd" for number in range(1001)]},
        "loop over less": {"template": "loops", "variables": {"name": "a"}, **words},
        "templates cannot reach that": {"template": "reaches", "variables": {"name": "a"}, **words},
    }
    for sentence, changes in refused.items():
        with subtests.test(sentence):
            answer = submit(server, **changes)
            assert answer.status_code == 400, answer.text
            assert sentence in answer.json()["detail"], answer.text
    for name in ("grows", "reaches-out"):
        with subtests.test(name):
            answer = submit(server, template=name, variables={"name": "a"}, **words)
            assert (answer.status_code, answer.json()["type"]) == (400, "urn:mailonce:template")

    assert stored(server) == dict.fromkeys(TABLES, 0)
    # None of them took the key.
    assert submit(server).status_code == 202


@pytest.mark.parametrize(
    "limit", [1 << 20, pytest.param(LIMIT, marks=pytest.mark.long)], indirect=True
)
def test_attachments_below_at_and_above_the_limit(
    server: Server, fakes: dict[str, Any], limit: int
) -> None:
    above = submit(server, "above", **attached(limit + 1))
    after = stored(server)
    answers = [submit(server, f"n{less}", **attached(limit - less)) for less in (0, 1)]

    assert above.status_code == 413
    assert f"the limit is {limit}" in above.json()["detail"]
    assert after == dict.fromkeys(TABLES, 0)
    assert {one.status_code for one in answers} == {202}
    wait_for(lambda: len(fakes["smtp"].messages) == 2, what="the large mails", seconds=120)


def test_a_mail_that_its_provider_does_not_take_is_refused_without_a_call(
    server: Server, fakes: dict[str, Any]
) -> None:
    # Postmark takes 10 MB.
    sent = submit(server, sender="postmark", **attached(11 << 20))

    path = f"/v1/sends/{sent.json()['id']}"
    wait_for(lambda: server.get(path)["state"] == "refused", what="it to be refused")
    assert server.get(path)["reason"] == "the mail is larger than its provider takes"
    assert fakes["postmark"].sends == []
