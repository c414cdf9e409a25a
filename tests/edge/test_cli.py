"""The command line, run as a process of its own: without a server, beside one, and over a URL."""

import hmac
import re
import socket
import stat
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest

from mailonce.testing import EventType, Happening, Post, Simulator, make_simulators
from tests.commands import ADMIN_KEY, Shell, post
from tests.servers import wait_for

COLOUR = "\x1b["


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Shell, str]]:
    """One server for the tests that only look."""
    shell = Shell(tmp_path_factory.mktemp("served"))
    with shell.serving() as url:
        yield shell, url


def happening(number: int, type_: EventType, recipient: str = "ann@example.net") -> Happening:
    return Happening(f"evt-{number}", type_, f"m-{number}", recipient, int(time.time()) - 60)


def add_source(shell: Shell, name: str, simulator: Simulator) -> None:
    settings: dict[str, Any] = simulator.settings()
    given = ["--provider", settings["provider"], "--secret", settings["secret"]]
    shell.ok("source", "add", name, *given)


def test_a_source_lives_in_the_database_without_any_server(shell: Shell) -> None:
    added = shell.ok("source", "add", "main", "--provider", "sesmetric", "--secret", "s3cret")
    listed = shell.ok("source", "list")
    shown = shell.ok("source", "show", "main", "--json")
    removed = shell.ok("source", "remove", "main")

    assert "/in/main" in added.out
    assert "sesmetric" in listed.out
    assert shown.json["secrets"] == 1
    assert "s3cret" not in shown.out
    assert "its events stay" in removed.out
    assert shell.ok("source", "list", "--json").json == {"data": [], "next": None}


def test_the_first_start_tells_the_admin_key_and_no_command_does(shell: Shell) -> None:
    made = shell.ok("key", "add")
    with shell.serving(admin_key=None):
        log = (shell.folder / "server.log").read_text()
        second = shell.ok("source", "list")

    assert "admin key" not in made.err
    [path] = re.findall(r"admin key: see (\S+),", log)
    kept = Path(path)
    assert kept.read_text().startswith("mok_")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert "mok_" not in log, "standard error is a log here"
    assert "key add --scope admin" in log
    assert second.err == ""


def test_a_question_in_the_wrong_folder_makes_nothing_there(shell: Shell) -> None:
    asked = shell.run("undelivered")

    assert asked.code == 2
    assert "no database 'mailonce-data/mailonce.db'" in asked.err
    assert "--data-dir" in asked.err
    assert list(shell.folder.iterdir()) == []


def test_who_adds_in_the_wrong_folder_is_asked_first(shell: Shell) -> None:
    add = ("source", "add", "main", "--provider", "postmark", "--basic", "u:p")

    refused = shell.run_on_a_terminal(*add, types="n\n")
    files = list(shell.folder.iterdir())
    made = shell.run_on_a_terminal(*add, types="y\n")

    assert refused.code == 1
    assert "no database 'mailonce-data/mailonce.db'" in refused.out
    assert files == []
    assert made.code == 0, made.out


def test_a_port_that_is_taken_costs_no_secret(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = str(other.getsockname()[1])

        variables = {"--port": "MAILONCE_PORT", "--smtp-port": "MAILONCE_SMTP__PORT"}
        for option, variable in variables.items():
            refused = shell.run("serve", "--port", "0", option, taken)

            assert refused.code == 2
            assert f"cannot listen on 127.0.0.1:{taken}" in refused.err
            assert f"{option}, or with {variable}=… before the command" in refused.err
    assert list(shell.folder.iterdir()) == [], "the key will be made by a start that can show it"


def test_a_command_beside_a_server_goes_through_its_socket(shell: Shell) -> None:
    with shell.serving() as url:
        shell.ok("source", "add", "main", "--provider", "sesmetric", "--secret", "s")

        over_url = shell.ok("source", "list", "--json", "--url", url, "--key", ADMIN_KEY)

        assert [one["name"] for one in over_url.json["data"]] == ["main"]


def test_a_long_path_of_the_data_has_a_socket_too(tmp_path: Path) -> None:
    folder = tmp_path / ("a" * 100)
    folder.mkdir()
    shell = Shell(folder)

    with shell.serving():
        listed = shell.ok("source", "list", "--json")

    assert listed.json["data"] == []


def test_without_its_socket_a_server_still_keeps_others_out(shell: Shell) -> None:
    with shell.serving():
        (shell.data_dir / "mailonce.sock").unlink()

        done = shell.run("source", "list")

    assert done.code == 2
    assert "another mailonce process has mailonce.db open; stop it (process " in done.err


def test_a_wrong_key_is_refused_in_one_sentence(served: tuple[Shell, str]) -> None:
    shell, url = served

    done = shell.run("source", "list", "--url", url, "--key", "mok_wrong")

    assert done.code == 1
    assert done.err == (
        "mailonce: this key is not known or was revoked; make one with `mailonce key add`\n"
    )


def test_a_server_that_does_not_answer_is_exit_code_3(shell: Shell) -> None:
    done = shell.run("source", "list", "--url", "http://127.0.0.1:9")

    assert done.code == 3
    assert done.err.count("\n") == 1
    assert "start it with `mailonce serve`" in done.err


@pytest.mark.parametrize(
    ("command", "next_step"),
    [
        (("source", "list"), "mailonce source add"),
        (("events",), "mailonce demo"),
        (("events", "--type", "bounced"), "no events with --type bounced"),
        (("suppression", "list"), "no address is suppressed"),
        (("dead", "list"), "no dead letters"),
        (("stats",), "mailonce demo"),
        (("conflicts",), "no conflicts"),
        (("refusals",), "no refusals"),
        (("sends", "list"), "--idempotency-key"),
    ],
)
def test_an_empty_list_says_what_to_do_next(
    served: tuple[Shell, str], command: tuple[str, ...], next_step: str
) -> None:
    assert next_step in served[0].ok(*command).out


def test_a_send_without_a_key_is_told_the_options_that_give_one(
    served: tuple[Shell, str],
) -> None:
    refused = served[0].run("send", "ann@example.net", "--from", "a@example.com", "--text", "Hi")

    assert refused.code == 2
    assert "--idempotency-key" in refused.err
    assert "--cause" in refused.err


def test_a_terminal_shows_colour_and_a_pipe_does_not(served: tuple[Shell, str]) -> None:
    shell, _ = served

    piped = shell.ok("key", "list")
    shown = shell.run_on_a_terminal("key", "list")

    assert COLOUR not in piped.out
    assert COLOUR in shown.out
    assert "MAILONCE_ADMIN_KEY" in shown.out


def test_a_key_is_made_shown_once_and_revoked(served: tuple[Shell, str]) -> None:
    shell, url = served
    made = shell.ok("key", "add", "--scope", "reader", "--name", "dashboard", "--json").json

    reads = shell.run("source", "list", "--url", url, "--key", made["key"])
    writes = shell.run("workspace", "list", "--url", url, "--key", made["key"])
    named = shell.ok("key", "add", "--name", "second")
    other = shell.ok("key", "add")
    revoked = shell.ok("key", "revoke", made["id"][:-4])
    after = shell.run("source", "list", "--url", url, "--key", made["key"])
    again = shell.run("key", "revoke", made["id"])
    several = shell.run("key", "revoke", "key_" + made["id"][4:10])
    by_name = shell.ok("key", "revoke", "second", "--json").json

    assert f"reader key dashboard ({made['id']}) is revoked" in revoked.out
    assert f"revoked: {by_name['revoked']}" in named.out
    assert "it has no name" not in named.out
    assert "it has no name" in other.out
    assert (again.code, "see `mailonce key list`" in again.err) == (1, True)
    assert (several.code, "may mean several keys" in several.err) == (1, True)
    assert (reads.code, writes.code, after.code) == (0, 1, 1)
    assert made["key"] not in shell.ok("key", "list", "--json").out


def test_a_child_key_is_made_without_a_server_and_ends_with_its_parent(
    served: tuple[Shell, str],
) -> None:
    shell, url = served
    parent = shell.ok("key", "add", "--scope", "agent", "--json").json

    def ask(key: str, method: str, path: str) -> httpx.Response:
        headers = {"Authorization": f"Bearer {key}"}
        body = {"kind": "code"} if method == "POST" else None
        return httpx.request(method, f"{url}/v1/expectations{path}", json=body, headers=headers)

    mine, other = (ask(parent["key"], "POST", "").json()["id"] for _ in range(2))
    given = ("--parent", parent["key"], "--minutes", "5", "--uses", "2", "--json")
    children = [shell.ok("key", "child", mine, *given).json["key"] for _ in range(2)]
    codes = [ask(children[0], "GET", f"/{one}").status_code for one in (mine, other)]
    chosen = shell.run("key", "child", mine, "--parent", "a-word-that-somebody-chose")
    wrong = shell.run("key", "child", "exp_1", "--parent", parent["key"])
    shell.ok("key", "revoke", parent["id"])

    assert codes == [200, 403]
    assert len(set(children)) == 2, "each counts its own uses"
    assert (chosen.code, "key add --scope agent" in chosen.err) == (2, True)
    assert (wrong.code, parent["key"] in wrong.err) == (1, False)
    assert ask(children[1], "GET", f"/{mine}").status_code == 401


def test_an_expectation_is_listed_shown_and_explained(served: tuple[Shell, str]) -> None:
    shell, url = served
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
    wanted = {"kind": "code", "senders": ["no-reply@shop.example"]}
    opened = httpx.post(f"{url}/v1/expectations", json=wanted, headers=headers).json()
    for sender in ("no-reply@shop.example", "other@example.net"):
        mail = shell.folder / "code.eml"
        mail.write_text(f"From: {sender}\nSubject: Your code\n\nYour code is 734120\n")
        shell.ok("mail", str(mail), "--to", opened["address"])
    wait_for(
        lambda: len(shell.ok("expectation", "explain", opened["id"], "--json").json["judged"]) == 2,
        what="both mails to be read",
    )

    listed = shell.ok("expectation", "list", "--inbox", opened["address"], "--state", "ready").out
    shown = shell.ok("expectation", "show", opened["id"][:-4]).out
    at = f"{url}/v1/expectations/{opened['id']}/consume"
    httpx.post(at, json={"consume_key": "run-1"}, headers=headers).raise_for_status()
    explained = shell.ok("expectation", "explain", opened["id"])
    others = shell.ok("expectation", "list", "--state", "expired")
    missing = shell.run("expectation", "show", "exp_" + "0" * 32)

    assert opened["id"] in listed
    assert opened["address"] in listed
    assert re.search(r"state +ready", shown)
    assert "sender: other_sender" in explained.out
    assert "art_" in explained.out
    assert re.search(r"Z  leased +MAILONCE_ADMIN_KEY +art_", explained.out), explained.out
    assert f"`mailonce message SEQ --inbox {opened['address']}`" in explained.out
    assert f"`mailonce expectation explain {opened['id']}`" in shown
    assert "734120" not in explained.out, "the value is for whoever consumes it"
    assert "no expectations with --state expired" in others.out
    assert (missing.code, "see `mailonce expectation list`" in missing.err) == (1, True)


def test_two_codes_in_a_mail_are_read_with_a_command(served: tuple[Shell, str]) -> None:
    shell, url = served
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
    opened = httpx.post(f"{url}/v1/expectations", json={"kind": "code"}, headers=headers).json()
    mail = shell.folder / "codes.eml"
    mail.write_text(
        "From: a@example.net\nSubject: Your codes\n\nYour code is 111222\n\nYour code is 333444\n"
    )
    shell.ok("mail", str(mail), "--to", opened["address"])
    wait_for(
        lambda: bool(shell.ok("expectation", "explain", opened["id"], "--json").json["judged"]),
        what="the mail to be read",
    )

    explained = shell.ok("expectation", "explain", opened["id"]).out

    assert "wait_for_message" not in explained
    assert f"read the mail with `mailonce message 1 --inbox {opened['address']}`, and" in explained


def test_workspaces_do_not_see_each_other(shell: Shell) -> None:
    with shell.serving():
        shell.ok("workspace", "add", "other")
        shell.ok("source", "add", "main", "--provider", "mailgun", "--secret", "s")

        there = shell.ok("source", "list", "--workspace", "other", "--json")

        assert there.json["data"] == []
        assert {one["name"] for one in shell.ok("workspace", "list", "--json").json["data"]} == {
            "default",
            "other",
        }


def test_what_happened_can_be_listed_filtered_and_shown(shell: Shell) -> None:
    simulator = make_simulators()["sesmetric"]
    lines = [
        happening(1, EventType.DELIVERED),
        happening(2, EventType.BOUNCED, "bob@example.net"),
        happening(1, EventType.DELIVERED),
    ]
    with shell.serving() as url:
        add_source(shell, "main", simulator)
        post(url, "/in/main", *(simulator.post([one], now_s=int(time.time())) for one in lines))

        listed = shell.ok("events", "--type", "bounced", "--json").json["data"]
        shown = shell.ok("events", "show", listed[0]["id"])
        message = shell.ok("message", "m-1")
        suppressed = shell.ok("suppression", "list")
        stats = shell.ok("stats", "--json").json["data"]

    assert [one["recipient"] for one in listed] == ["bob@example.net"]
    assert "bob@example.net" in shown.out
    assert "ann@example.net  delivered" in message.out
    assert "bob@example.net" in suppressed.out
    assert {one["type"]: one["count"] for one in stats} == {"delivered": 1, "bounced": 1}


def test_a_person_suppresses_an_address_and_lifts_it(served: tuple[Shell, str]) -> None:
    shell, url = served
    key = shell.ok("key", "add", "--scope", "operator", "--name", "bob2", "--json").json["key"]

    added = shell.ok("suppression", "add", "Cy@Example.net", "--reason", "asked by phone")
    given = ("--reason", "ticket [43]", "--url", url, "--key", key)
    lifted = shell.ok("suppression", "lift", "cy@example.net", *given)
    recipient = shell.ok("recipient", "cy@example.net")
    shown = shell.ok("suppression", "show", "cy@example.net", "--json").json
    listed = shell.ok("suppression", "list", "--lifted").out
    audit = shell.ok("audit", "--object", "cy@example.net").out

    assert re.search(r"cy@example.net  20\S+Z  bob2  ticket \[43\]  manual", listed), listed
    assert "cy@example.net: ticket [43]" in audit
    assert "Cy@Example.net: asked by phone" in audit
    assert "cy@example.net is suppressed" in added.out
    assert "asked by phone" in added.out
    assert "is not suppressed" in lifted.out
    assert shown["suppressed"] is False
    assert len(shown["lifts"]) == 1
    for words in ("bob2", "ticket [43]", "manual for all mail: asked by phone"):
        assert words in lifted.out
    assert "by bob2: ticket [43]" in recipient.out


def test_who_unsubscribed_from_one_stream_is_suppressed_for_that_alone(
    served: tuple[Shell, str],
) -> None:
    shell, url = served
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
    path, body = f"{url}/v1/suppressions/dee@example.net", {"stream": "news"}
    assert httpx.put(path, json=body, headers=headers).is_success
    words = "dee@example.net is suppressed for the stream news\n"

    shown = [
        shell.ok(*one, "dee@example.net").out for one in (("recipient",), ("suppression", "show"))
    ]
    listed = shell.ok("suppression", "list").out
    asked = shell.run_on_a_terminal("suppression", "lift", "dee@example.net", types="n\n").out
    shell.ok("suppression", "add", "dee@example.net")
    of_all = shell.ok("recipient", "dee@example.net").out
    shell.ok("suppression", "lift", "dee@example.net")

    assert all(one.startswith(words) for one in shown), shown
    assert "manual of the stream news since" in shown[0]
    assert re.search("dee@example.net .* the stream news ", listed), listed
    assert "Lift dee@example.net, suppressed for the stream news (manual)?" in " ".join(
        asked.split()
    )
    assert "dee@example.net is suppressed for all mail\n" in of_all


def test_dead_letters_and_refusals_are_shown_and_retried(shell: Shell) -> None:
    now = str(int(time.time()))
    body = b"not json"
    digest = hmac.new(b"s3cret", f"{now}.".encode() + body, sha256).hexdigest()
    signed = {"X-SESMetric-Timestamp": now, "X-SESMetric-Signature": digest}
    with shell.serving() as url:
        shell.ok("source", "add", "main", "--provider", "sesmetric", "--secret", "s3cret")
        dead, refused = post(url, "/in/main", Post(signed, body), Post({}, body))

        letter = shell.ok("dead", "list", "--json").json["data"][0]
        shown = shell.ok("dead", "show", letter["id"])
        retried = shell.run("dead", "retry", letter["id"])
        examined = shell.ok("doctor").out
        removed = shell.ok("source", "remove", "main")
        without_source = shell.run("dead", "retry", letter["id"])
        shell.ok("source", "add", "main", "--provider", "sesmetric", "--secret", "s3cret")
        with_source = shell.run("dead", "retry", letter["id"], "--as", "main")
        key = shell.ok("key", "add", "--scope", "operator", "--name", "bob2", "--json").json["key"]
        by_bob = ("--reason", "fixed-by-hand", "--url", url, "--key", key)
        shell.ok("dead", "dismiss", letter["id"], *by_bob)
        dismissed = shell.ok("dead", "show", letter["id"]).out

    assert (dead.code, refused.code) == (200, 401)
    assert "not json" in shown.out
    assert retried.code == 1
    assert retried.err.startswith("mailonce: ")
    assert "dead letters" in examined
    assert "it has open dead letters" in removed.out
    assert "its source was removed" in without_source.err
    assert "--as NAME" in without_source.err
    assert with_source.err == retried.err, "it is read again, and is as broken as before"
    assert "by bob2: fixed-by-hand" in dismissed
    refusals = shell.ok("refusals").out
    assert "missing signature" in refusals
    assert "127.0.0.1" in refusals


def test_pruning_says_what_it_forgot(served: tuple[Shell, str]) -> None:
    shell, url = served

    done = shell.ok("prune", "--json")
    key = shell.ok("key", "add", "--json").json["key"]
    refused = shell.run("prune", "--url", url, "--key", key)

    assert done.json == {"days": 0, "rotated": False, "rows": 0, "waits_until": None}
    assert refused.code == 1
    assert "needs an admin key" in refused.err


def test_a_source_without_its_secret_is_a_setting_to_correct(served: tuple[Shell, str]) -> None:
    done = served[0].run("source", "add", "main", "--provider", "sendgrid")

    assert done.code == 2
    assert "needs `public_key`" in done.err


def test_an_empty_secret_is_refused_however_it_is_given(shell: Shell) -> None:
    (shell.folder / "empty.txt").write_text(" \n")
    added = ["source", "add", "open", "--provider", "mailgun"]
    shell.ok("source", "add", "shut", "--provider", "mailgun", "--secret", "s3cret")

    refused = [
        shell.run(*added, "--secret", ""),
        shell.run(*added, "--secret", "@empty.txt"),
        shell.run(*added, "--secret", "-"),
        shell.run("source", "set", "shut", "--secret", "s3cret", "--secret", " "),
        shell.run("source", "set", "shut", "--token", ""),
        shell.run("route", "add", "crm", "https://crm.example/h", "--secret", ""),
    ]

    assert [one.code for one in refused] == [2] * 6
    assert all("is empty; give the secret" in one.err for one in refused)
    assert "standard input" in refused[2].err
    assert shell.run("source", "show", "open").code == 1
    assert shell.ok("source", "show", "shut", "--json").json["secrets"] == 1


def test_an_option_is_json_or_text(shell: Shell) -> None:
    secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"
    given = ["--option", "contact_unsubscribes=true", "--option", "secret_encoding=raw"]
    shell.ok("source", "add", "main", "--provider", "resend", "--secret", secret, *given)

    shown = shell.ok("source", "show", "main", "--json").json
    wrong = shell.run("source", "add", "x", "--provider", "mailgun", "--option", "novalue")

    assert shown["options"] == {"contact_unsubscribes": True, "secret_encoding": "raw"}
    assert wrong.code == 2
    assert "write it as name=value" in wrong.err


@pytest.mark.parametrize(
    ("env", "toml", "named"),
    [
        ({"MAILONCE_PORT": "abc"}, "", "`port`"),
        ({"MAILONCE_WINDOW_DAYS": "0"}, "", "`window_days`"),
        ({"MAILONCE_DATABASE": "mysql://x"}, "", "`database`"),
        ({"MAILONCE_ADMIN_KEY": "short"}, "", "`admin_key`"),
        ({"MAILONCE_ADMIN_KEY": " " * 20}, "", "`admin_key`"),
        (
            {"MAILONCE_SOURCES__MG__PROVIDER": "mailgun", "MAILONCE_SOURCES__MG__SECRET": ""},
            "",
            "`secret` has an empty value",
        ),
        (
            {},
            "[sources.mg]\nprovider = 'mailgun'\nsecret = ['good', '']",
            "`secret` has an empty value",
        ),
        ({}, "[smtp]\ncertificate = 'c.pem'\n[smtp.users]\nann = ''", "password of 'ann'"),
        ({"MAILONCE_HOST": "0.0.0.0"}, "", "`host`"),
        ({"MAILONCE_DATA_DIR": "/dev/null/data"}, "", "`data_dir`"),
        ({"MAILONCE_DATABASE": "sqlite:////dev/null/x.db"}, "", "`database`"),
        ({}, "prot = 8100", "`prot`"),
        ({}, "port = ", "mailonce.toml is not TOML"),
        ({}, "[sources.main]\nsecret = 's'", "`sources.main.provider`"),
        ({}, "[sources.main]\nprovider = 'nobody'", "`provider` 'nobody'"),
        ({}, "[sources.'a b']\nprovider = 'mailgun'\nsecret = 's'", "the name 'a b'"),
        ({}, "[sources.main]\nprovider = 'mailgun'", "`secret`"),
        (
            {"MAILONCE_WINDOW_DAYS": "1"},
            "[sources.main]\nprovider = 'sesmetric'\nsecret = 's'",
            "`window_days`",
        ),
    ],
)
def test_a_wrong_setting_is_one_sentence_that_names_it(
    shell: Shell, env: dict[str, str], toml: str, named: str
) -> None:
    if toml:
        (shell.folder / "mailonce.toml").write_text(toml)

    done = shell.run("key", "add", env=env)

    assert done.code == 2
    assert done.err.startswith("mailonce: ")
    assert done.err.count("\n") == 1
    assert named in done.err
    assert done.out == ""
