"""The command line as people type it: short ids, narrow terminals, options anywhere."""

import itertools
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from mailonce import __version__
from mailonce.edge.cli.main import app
from mailonce.testing import EventType, Happening, Simulator, make_simulators
from tests.commands import ADMIN_KEY, Shell, post
from tests.endpoint import answers, running_endpoint
from tests.servers import wait_for

ID = re.compile(r"\b(?:dlv|evt|dead)_[0-9a-f]{32,64}\b")
NOW_S = int(time.time())
ADDRESS = "ann.a.rather.long.name@customers.example.net"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture
def simulator() -> Simulator:
    return make_simulators(["sesmetric"], seed="1")["sesmetric"]


def test_the_version_and_help_are_where_people_look(shell: Shell) -> None:
    assert shell.ok("--version").out.strip() == f"mailonce {__version__}"
    for arguments in (["-h"], ["--help"], ["help"]):
        shown = shell.ok(*arguments).out
        assert "Exit codes" in shown
        assert "recipient" in shown
    assert "Rotate" in shell.ok("route", "-h").out or "rotate" in shell.ok("route", "-h").out


def test_help_names_the_words_that_an_argument_takes(shell: Shell) -> None:
    assert "ID sent|not_sent" in shell.ok("sends", "resolve", "--help").out


def test_help_is_written_as_other_tools_write_it(shell: Shell) -> None:
    for arguments in (
        [], ["serve"], ["inbox"], ["inbox", "create"], ["route", "add"], ["dead", "dismiss"],
        ["key", "child"], ["simulate"],
    ):  # fmt: skip
        shown = shell.ok(*arguments, "--help").out
        assert not re.search(r"<[a-z]|\{|bool|list\[", shown), shown
    assert "mailonce dead dismiss [OPTIONS] [ID]..." in shell.ok("dead", "dismiss", "-h").out
    assert "mailonce route add [OPTIONS] NAME [URL]" in shell.ok("route", "add", "-h").out


def test_an_argument_that_is_written_as_an_option_is_named(shell: Shell) -> None:
    wrong = shell.run("inbox", "create", "--local", "ann")

    assert wrong.code == 2
    assert "--local is not an option: write the LOCAL by itself" in " ".join(wrong.err.split())


def test_words_of_other_tools_name_the_same_command(shell: Shell) -> None:
    shell.ok("source", "create", "main", "--provider", "postmark", "--token", "a" * 32)
    assert "main" in shell.ok("source", "ls").out
    shell.ok("source", "delete", "main", "--yes")
    assert shell.run("source", "destroy", "main").code == 2


def test_a_route_without_an_endpoint_is_asked_for_one(shell: Shell) -> None:
    with running_endpoint() as endpoint:
        added = shell.run("route", "add", "crm", "--url", endpoint.url("/"))

        assert added.code == 2
        assert "mailonce route add crm https://" in added.err
        assert endpoint.requests == []


def test_what_answers_but_is_no_server_of_ours_is_named(shell: Shell) -> None:
    with running_endpoint(**{"v1/sources": answers(200, b"hello")}) as endpoint:
        listed = shell.run("source", "list", "--url", endpoint.url("/"))

        assert listed.code != 0
        assert "is no mailonce server" in listed.err


def test_providers_are_listed_without_a_server_or_a_database(shell: Shell) -> None:
    listed = shell.ok("providers").out
    one = shell.ok("providers", "sendgrid").out

    assert {"sendgrid", "postmark", "ses"} <= set(listed.split())
    assert "public_key" in one
    assert shell.run("providers", "pigeon").code == 2
    assert list(shell.folder.iterdir()) == []


def test_options_stand_before_or_after_a_command(shell: Shell) -> None:
    with shell.serving() as url:
        bare = url.removeprefix("http://")
        for before, after in (
            (["--url", url, "--key", ADMIN_KEY, "--json"], []),
            ([f"--url={bare}"], ["--key", ADMIN_KEY, "--json"]),
        ):
            first = shell.ok(*before, "source", "list", *after)
            inside = shell.ok("source", *before, "list", *after)

            assert first.json == inside.json == {"data": [], "next": None}


def test_what_the_settings_file_has_is_changed_there(shell: Shell) -> None:
    (shell.folder / "mailonce.toml").write_text(
        '[sources.hooks]\nprovider = "postmark"\nbasic = "u:p"\n'
        '[routes.crm]\nkind = "poll"\n[senders.out]\nprovider = "postmark"\nsecret = "s"\n'
    )
    made = shell.ok("source", "add", "own", "--provider", "postmark", "--basic", "u:p")

    with shell.serving():
        changed = shell.ok("source", "set", "hooks", "--basic", "u:q")
    paused = shell.ok("sender", "set", "out", "--off", "a pause")
    shell.ok("sender", "set", "out", "--on")
    others = [
        shell.ok("route", "set", "crm", "--event", "bounced"),
        shell.ok("sender", "set", "out", "--timeout-s", "9"),
        shell.ok("route", "remove", "crm"),
        shell.ok("sender", "delete", "out"),
    ]
    removed = [shell.ok("source", "remove", name) for name in ("hooks", "own")]

    assert "made a new database" in made.err
    assert "set `public_url`" in made.out
    assert "the file wins" in " ".join(changed.out.split())
    assert ["made by mailonce.toml" in one.out for one in removed] == [True, False]
    assert all("made by mailonce.toml" in one.out for one in others)
    assert "made by" not in paused.out
    assert changed.err == ""


def test_what_is_set_to_what_it_was_is_said_to_be_unchanged(shell: Shell) -> None:
    (shell.folder / "token").write_text("word")
    shell.ok("source", "add", "main", "--provider", "postmark", "--basic", "u:p")
    shell.ok("route", "add", "crm", "https://crm.example.com/hooks", "--event", "bounced")
    shell.ok("sender", "create", "out", "--provider", "postmark", "--secret", "@token")

    for command, other in (
        (("source", "set", "main", "--basic"), ("u:p", "u:q")),
        (("route", "set", "crm", "--event"), ("bounced", "opened")),
    ):
        same, changed = (shell.ok(*command, value).out for value in other)
        assert "is unchanged, since it has the same:" in same
        assert "is changed:" in changed
    same = shell.ok("sender", "set", "out", "--secret", "@token", "--json").json
    changed = shell.ok("sender", "set", "out", "--timeout-s", "9", "--json").json
    assert (same["changed"], changed["changed"]) == (False, True)


def test_a_secret_comes_from_a_file_and_is_rotated_without_the_rest(
    shell: Shell, simulator: Simulator
) -> None:
    (shell.folder / "secret.txt").write_text("from-a-file\n")
    shell.ok("source", "add", "main", "--provider", "sesmetric", "--secret", "@secret.txt",
             "--option", "form=timestamp")  # fmt: skip
    secret = simulator.settings()["secret"]

    changed = shell.ok("source", "set", "main", "--secret", secret, "--secret", "@secret.txt")
    shown = shell.ok("source", "show", "main", "--json").json
    nothing = shell.run("source", "set", "main")
    missing = shell.run("source", "set", "main", "--secret", "@none.txt")

    assert "is changed: secret" in changed.out
    assert (shown["secrets"], shown["provider"], shown["options"]) == (
        2, "sesmetric", {"form": "timestamp"},
    )  # fmt: skip
    assert (nothing.code, missing.code) == (2, 2)
    assert "none.txt cannot be read" in missing.err


def test_a_route_is_changed_in_one_place_and_keeps_its_secret_and_headers(shell: Shell) -> None:
    shell.ok("route", "add", "crm", "https://crm.example.com/a", "--header", "X-Team: crm")
    before = shell.ok("route", "show", "crm", "--json").json

    shell.ok("route", "set", "crm", "--endpoint", "https://crm.example.com/b", "--event", "bounced")

    after = shell.ok("route", "show", "crm", "--json").json
    assert (after["url"], after["events"]) == ("https://crm.example.com/b", ["bounced"])
    assert (after["headers"], after["secrets"]) == (["X-Team"], before["secrets"])
    wrong = shell.run("route", "set", "crm", "--event", "nonsense")
    assert wrong.code != 0


def test_everything_again_must_be_meant(shell: Shell) -> None:
    shell.ok("key", "add")
    # A route is where the events are sent: it leaves none of them out.
    by_route = shell.run("reprocess", "--route", "crm")

    assert by_route.code == 2
    assert "give ids, --type, --missing, --since or --until, or --all" in " ".join(
        by_route.err.split()
    )
    for command in ("redeliver", "reprocess"):
        refused = shell.run(command)

        assert refused.code == 2
        assert "--all" in refused.err
        assert f"would {command} 0" in shell.ok(command, "--dry-run").out
        assert f"nothing to {command}: no such" in shell.ok(command, "--all").out


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Shell, str]]:
    """A server with a bounce whose delivery was refused for good."""
    simulator = make_simulators(["sesmetric"], seed="1")["sesmetric"]
    shell = Shell(tmp_path_factory.mktemp("failing"))
    with running_endpoint(hooks=answers(400)) as endpoint:
        shell.env["MAILONCE_NET__ALLOW_HOSTS"] = '["127.0.0.1"]'
        with shell.serving() as url:
            secret = simulator.settings()["secret"]
            shell.ok("source", "add", "main", "--provider", "sesmetric", "--secret", secret)
            shell.ok("route", "add", "a-route-with-a-long-name", endpoint.url("/hooks"))
            bounce = Happening("e-1", EventType.BOUNCED, "m-1", ADDRESS, int(time.time()))
            post(url, "/in/main", simulator.post([bounce], now_s=int(time.time())))
            wait_for(
                lambda: bool(shell.ok("dead", "list", "--json").json["data"]),
                what="the dead letter",
            )
            yield shell, url


def test_support_finds_what_happened_to_an_address(failing: tuple[Shell, str]) -> None:
    shell, _ = failing

    [bounce] = shell.ok("events", "--type", "bounced", "--json").json["data"]
    shown = shell.ok("recipient", ADDRESS)
    message = shell.ok("message", "m-1")
    tables = [shown.out, message.out]

    assert f"{ADDRESS} is suppressed" in shown.out
    for out in (shown.out, shell.ok("suppression", "show", ADDRESS).out):
        assert "bounced hard, reported by sesmetric" in out
        assert bounce["id"] in out
        assert f"`mailonce suppression lift {ADDRESS} --reason …`" in out
        assert "no reason given" not in out
    for table in tables:
        assert "bounced" in table
        assert "→ a-route-with-a-long-name: failed" in table
        assert "HTTP 400" in table
    assert "is not suppressed" in shell.ok("recipient", "nobody@example.net").out
    assert shell.ok("recipient", ADDRESS, "--json").json["messages"][0]["message_id"] == "m-1"


def test_at_eighty_columns_every_id_is_whole_and_its_beginning_is_enough(
    failing: tuple[Shell, str],
) -> None:
    shell, _ = failing
    shows = {"dlv": ("delivery", "show"), "evt": ("events", "show"), "dead": ("dead", "show")}
    found: set[str] = set()
    for command in (
        ["delivery", "list"], ["undelivered"], ["events", "list"], ["dead", "list"],
    ):  # fmt: skip
        shown = shell.run_on_a_terminal(*command, columns=80).out
        plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
        ids = set(ID.findall(plain))

        assert ids, f"{command} shows no whole id:\n{plain}"
        assert max(len(line.rstrip()) for line in plain.splitlines()) <= 80
        found |= ids

    assert {one.partition("_")[0] for one in found} == {"dlv", "evt", "dead"}
    for one in found:
        kind = one.partition("_")[0]
        whole = shell.ok(*shows[kind], one, "--json").json
        assert shell.ok(*shows[kind], one[:20], "--json").json["id"] == whole["id"] == one
    short = shell.run("delivery", "show", "dlv_000000")
    assert (short.code, "no id begins with 'dlv_000000'" in short.err) == (1, True)


def test_a_body_is_indented_json_and_nothing_of_it_is_cut(failing: tuple[Shell, str]) -> None:
    shell, _ = failing
    delivery = shell.ok("delivery", "list", "--json").json["data"][0]["id"]

    shown = shell.ok("delivery", "show", delivery).out
    attempts, end = shown.index("attempt  at"), shown.rindex("}")
    assert attempts < shown.index("{")
    assert f"`mailonce redeliver {delivery}`" in shown[end:]
    body = json.loads(shown[shown.index("{") : shown.rindex("}") + 1])

    assert body["recipient"] == ADDRESS
    assert max(map(len, shown.splitlines())) < 200, "lines are not padded in a pipe"


def test_events_are_followed_as_they_arrive(
    failing: tuple[Shell, str], simulator: Simulator
) -> None:
    shell, url = failing
    command = [sys.executable, "-m", "mailonce", "tail", "--count", "1"]
    with subprocess.Popen(
        command,
        cwd=shell.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=shell.environment,
    ) as following:
        numbers = itertools.count(2)

        def has_ended() -> bool:
            """Let one more thing happen: it may still be starting."""
            number = next(numbers)
            opened = Happening(f"e-{number}", EventType.OPENED, f"m-{number}", ADDRESS, NOW_S)
            post(url, "/in/main", simulator.post([opened], now_s=int(time.time())))
            return following.poll() is not None

        wait_for(has_ended, what="an event to be shown")
        out, err = following.communicate()

    assert re.fullmatch(r"\S+ +opened +ann\S+ +main +m-\d+\n", out), out
    assert err == "mailonce: waiting for new events; Ctrl-C stops\n"


def test_dead_letters_are_retried_and_put_to_rest(failing: tuple[Shell, str]) -> None:
    shell, _ = failing
    route = "a-route-with-a-long-name"
    unsaid = shell.run("dead", "dismiss")
    shell.ok("route", "set", route, "--event", "bounced")

    retried = shell.run("dead", "retry", "--route", route, "--all")
    wait_for(lambda: _all_dead(shell), what="the retries to fail again")
    letter = shell.ok("dead", "list", "--json").json["data"][0]["id"]
    dismissed = shell.ok("dead", "dismiss", letter)
    again = shell.ok("dead", "dismiss", letter)
    too_late = shell.run("dead", "retry", letter)
    shell.ok("dead", "dismiss", "--route", route, "--reason", "old test")

    assert (retried.code, "0 delivered" in retried.out) == (1, True), retried.out
    assert unsaid.code == 2
    unexplained = "dismissed 1 dead letter, without a reason; --reason tells others why"
    assert " ".join(dismissed.out.split()) == unexplained
    assert f"{letter} is closed already: dismissed by" in " ".join(again.out.split())
    assert too_late.code == 1
    assert f"{letter} is closed already: dismissed, at " in too_late.err
    assert "; use `mailonce redeliver dlv_" in too_late.err
    assert shell.ok("dead", "list", "--json").json["data"] == []
    assert shell.ok("dead", "list", "--resolved", "--json").json["data"]
    undelivered = shell.ok("undelivered").out.strip()
    # How many events another test has let fail here depends on how long it had to wait.
    some = r"(1 failed and was|\d+( or more)? failed and were)"
    assert re.fullmatch(
        rf"nothing waits; {some} dismissed: `mailonce dead list --resolved`", undelivered
    ), undelivered


def _all_dead(shell: Shell) -> bool:
    rows = shell.ok("undelivered", "--json").json["data"]
    return {row["state"] for row in rows} == {"failed"}


@pytest.mark.parametrize(
    ("provider", "given", "words"),
    [
        ("sendgrid", ["--public-key", "notakey"], "begins with MFkw"),
        ("postmark", ["--basic", "nocolon"], "user:password"),
        ("postmark", ["--header", "foo"], "'Name: value'"),
    ],
)
def test_a_key_that_can_never_work_is_refused(
    shell: Shell, provider: str, given: list[str], words: str
) -> None:
    refused = shell.run("source", "add", "main", "--provider", provider, *given)

    assert refused.code == 2
    assert words in refused.err


def _commands(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    yield path.strip(), command
    for name, inner in getattr(command, "commands", {}).items():
        yield from _commands(inner, f"{path} {name}")


def test_what_cannot_be_undone_takes_yes() -> None:
    final = {"delete", "remove", "revoke", "lift", "cancel", "dismiss", "resend"}
    found = {
        path: {option for parameter in command.params for option in parameter.opts}
        for path, command in _commands(get_command(app))
        if path and final & {*path.split()[-1].split("-")}
    }

    assert len(found) >= 9, found
    assert [path for path, options in found.items() if "--yes" not in options] == []


def test_the_url_of_a_source_with_a_token_has_a_place_for_it(shell: Shell) -> None:
    shell.env["MAILONCE_PUBLIC_URL"] = "https://hooks.example.com"
    with shell.serving():
        added = shell.ok("source", "add", "pm", "--provider", "postmark", "--token", "t0p-s3cret")
        shell.ok("source", "add", "bare", "--provider", "postmark", "--basic", "hook:word")
        listed = shell.ok("source", "list")
        shown, bare = shell.ok("source", "show", "pm"), shell.ok("source", "show", "bare")
        as_json = shell.ok("source", "show", "pm", "--json")

    url = "https://hooks.example.com/in/pm/TOKEN"
    assert f"point the webhook at {url}\n" in added.out.replace("at\n", "at ")
    assert url in listed.out
    assert "https://hooks.example.com/in/bare/TOKEN" not in listed.out
    assert url in shown.out
    for answer in (listed, shown):
        assert "is kept encrypted and never shown" in " ".join(answer.out.split())
    assert "`mailonce source set pm --token -`" in " ".join(shown.out.split())
    assert "TOKEN" not in bare.out
    assert as_json.json["url"] == "https://hooks.example.com/in/pm"
    assert all("t0p-s3cret" not in one.out for one in (added, listed, shown, as_json))
