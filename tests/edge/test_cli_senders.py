"""Senders from the command line; no credential stands on it."""

from pathlib import Path

import pytest

from tests.commands import Shell

PLAIN = ("--provider", "smtp", "--host", "smtp.example.com", "--username", "shop")


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    (tmp_path / "password").write_text("word\n")
    (tmp_path / "key").write_text("re_key\n")
    (tmp_path / "empty").write_text("\n")
    return Shell(tmp_path)


def test_a_sender_is_made_shown_changed_switched_and_deleted(shell: Shell) -> None:
    with shell.serving():
        made = shell.ok("sender", "create", "out", *PLAIN, "--password", "@password")
        listed = shell.ok("sender", "list")
        changed = shell.ok(
            "sender", "set", "out", "--concurrency", "4", "--option", "helo=mail.example.com",
            "--json",
        ).json  # fmt: skip
        off = shell.ok("sender", "set", "out", "--off", "maintenance", "--json").json
        on = shell.ok("sender", "set", "out", "--on", "--json").json
        shown = shell.ok("sender", "show", "out", "--json").json
        shell.ok("sender", "create", "api", "--provider", "resend", "--secret", "@key")
        api = shell.ok("sender", "show", "api", "--json").json
        deleted = shell.ok("sender", "delete", "out")
        gone = shell.run("sender", "show", "out")

    assert "out is ready" in made.out
    assert "smtp" in listed.out
    assert (changed["concurrency"], changed["host"]) == (4, "smtp.example.com")
    assert changed["options"] == {"helo": "mail.example.com"}
    assert (off["on"], off["off_reason"], on["on"]) == (False, "maintenance", True)
    # What was not named stayed, the password too.
    assert (shown["username"], shown["password"], shown["concurrency"]) == ("shop", True, 4)
    assert (api["secrets"], api["provider"]) == (1, "resend")
    assert "is deleted" in deleted.out
    assert (gone.code, "there is no sender" in gone.err) == (1, True)


def test_credentials_that_cannot_be_read_are_refused_with_a_sentence(
    shell: Shell, subtests: pytest.Subtests
) -> None:
    wrong = {
        "not written on the command line": ("--password", "word"),
        "cannot be read": ("--password", "@nothing"),
        "is empty": ("--password", "@empty"),
        "holds one credential": ("--password", "-", "--secret", "-"),
    }
    with shell.serving():
        for words, given in wrong.items():
            with subtests.test(words):
                done = shell.run("sender", "create", "out", *PLAIN, *given)
                assert (done.code, words in done.err) == (2, True), done.err
        assert "no senders yet" in shell.ok("sender", "list").out
