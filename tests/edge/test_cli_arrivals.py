"""What became of a webhook, by the id in its answer; and of mail that no inbox took."""

from collections.abc import Iterator

import httpx
import pytest

from mailonce.testing import mail_post, mail_settings, make_simulator
from tests.commands import Shell
from tests.providers.inbound.hooks import SENDER, make_mail

GHOST = "ghost@nowhere.example"
POSTMARK = make_simulator("postmark", "1")
AUTH = mail_settings(POSTMARK)["basic"]


class Hook:
    """A server with a source, and what was answered there."""

    def __init__(self, shell: Shell, url: str) -> None:
        self.shell = shell
        self._url = f"{url}/in/pm"

    def post(self, content: bytes) -> str:
        """Post a webhook; give the id of its arrival."""
        name, _, password = AUTH.partition(":")
        answer = httpx.post(self._url, content=content, auth=(name, password))
        assert answer.status_code == 200, answer.text
        return str(answer.json()["arrival"])


@pytest.fixture(scope="module")
def hook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hook]:
    shell = Shell(tmp_path_factory.mktemp("hook"))
    with shell.serving() as url:
        shell.ok("source", "add", "pm", "--provider", "postmark", "--basic", AUTH)
        yield Hook(shell, url)


def test_the_id_in_an_answer_leads_to_what_was_recorded(hook: Hook) -> None:
    bounce = b'{"RecordType": "SpamComplaint", "ID": 61, "Email": "kim@example.net"}'
    first, second, dead = hook.post(bounce), hook.post(bounce), hook.post(b"[")
    again = hook.post(b"[")
    shell = hook.shell

    [event] = shell.ok("events", "--recipient", "kim@example.net", "--json").json["data"]
    [letter] = shell.ok("dead", "list", "--json").json["data"]
    shown = {one: shell.ok("arrival", "show", one).out for one in (first, second, dead, again)}
    answer = shell.ok("arrival", "show", second[:20], "--json").json

    assert event["id"] in shown[first]
    assert "something in it was new" in shown[first]
    assert f"copy of  {event['id']}  recognised by key" in shown[second]
    assert "all of it was known already" in shown[second]
    assert letter["id"] in shown[dead]
    assert "of what it was a copy is not kept" in shown[again]
    assert (answer["id"], answer["source_name"], answer["status"]) == (second, "pm", "duplicate")


def test_the_id_of_an_arrival_names_the_command_that_shows_it(
    hook: Hook, subtests: pytest.Subtests
) -> None:
    arrival = "arr_" + "0" * 32

    for command in ("events show", "dead show", "message"):
        with subtests.test(command):
            refused = hook.shell.run(*command.split(), arrival)
            assert refused.code == 1
            assert f"`mailonce arrival show {arrival}`" in refused.err
    unknown = hook.shell.run("arrival", "show", arrival)
    assert unknown.code == 1
    assert "it was pruned (`window_days`), or another workspace or server" in unknown.err


def test_mail_that_no_inbox_took_is_listed_and_said_to_be_so(hook: Hook) -> None:
    post = mail_post(POSTMARK, make_mail(), sender=SENDER, recipients=(GHOST,), now_s=0)
    arrival = hook.post(post.body)
    shell = hook.shell
    hint = f"no inbox has the address {GHOST}; see `mailonce inbox unmatched`"

    listed = shell.ok("inbox", "unmatched").out
    [mail] = shell.ok("inbox", "unmatched", "--json").json["data"]
    [event] = shell.ok("events", "--recipient", GHOST, "--json").json["data"]

    assert GHOST in listed
    assert mail["id"] in listed
    assert hint in shell.ok("recipient", GHOST).out
    assert hint in shell.ok("message", event["message_id"]).out
    assert (
        "no inbox took it: `mailonce inbox unmatched`" in shell.ok("arrival", "show", arrival).out
    )


def test_an_address_that_is_given_as_a_message_names_the_command_for_it(hook: Hook) -> None:
    refused = hook.shell.run("message", "ann@example.net")

    assert refused.code == 1
    assert "`mailonce recipient ann@example.net`" in refused.err


def test_who_writes_to_is_told_of_recipient(hook: Hook) -> None:
    refused = hook.shell.run("sends", "list", "--to", "ann@example.net")

    assert refused.code == 2
    assert "--to is not an option here: write --recipient" in " ".join(refused.err.split())
