"""Text of any length that others wrote: cut in lists, whole where one thing is shown."""

from collections.abc import Iterator

import pytest

from tests.commands import Shell
from tests.servers import wait_for

ANN = "ann@example.net"
SUBJECT = "Your order of many things, with words to fill a screen, " * 15
REASON = "the customer wrote us, and called, and wrote again about it; " * 8


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A server with --dev that has received a mail with a long subject."""
    shell = Shell(tmp_path_factory.mktemp("long"), {"MAILONCE_DEV": "true"})
    with shell.serving():
        mail = ("--from", "shop@example.com", "--subject", SUBJECT.strip(), "--text", "Thank you.")
        shell.ok("send", ANN, *mail, "--idempotency-key", "order-17")
        wait_for(lambda: bool(_mails(shell)), what="the mail to be received")
        shell.ok("suppression", "add", ANN, "--reason", REASON.strip())
        yield shell


def _mails(shell: Shell) -> list[dict[str, str]]:
    done = shell.run("inbox", "messages", ANN, "--json")
    rows: list[dict[str, str]] = done.json["data"] if done.code == 0 else []
    return rows


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize(
    ("command", "field"),
    [
        (("inbox", "messages", ANN), "id"),
        (("message", "order-17"), "id"),
        (("recipient", "shop@example.com"), "seq"),
        (("suppression", "list"), "address"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_list_cuts_long_text_and_nothing_that_is_copied(
    shell: Shell, command: tuple[str, ...], field: str, columns: int
) -> None:
    copied = {**_mails(shell)[0], "address": ANN}[field]

    shown = shell.run_on_a_terminal(*command, columns=columns).out

    assert "…" in shown
    assert len(shown.splitlines()) <= 24, shown
    assert str(copied) in shown


def test_each_step_to_the_bytes_of_a_mail_names_the_next_one(shell: Shell) -> None:
    listed = shell.ok("inbox", "messages", ANN).out
    found = shell.ok("recipient", "shop@example.com").out
    shown = shell.ok("message", "1", "--inbox", ANN).out

    assert f"`mailonce message SEQ --inbox {ANN}`" in listed
    assert "`mailonce message SEQ --inbox INBOX`" in found
    assert f"`mailonce message 1 --inbox {ANN} --raw`" in shown
    assert "Message-ID:" in shell.ok("message", "1", "--inbox", ANN, "--raw").out


def test_one_thing_is_shown_with_all_of_its_text(shell: Shell) -> None:
    assert SUBJECT.strip() in _words(shell.ok("message", "1", "--inbox", ANN).out)
    assert REASON.strip() in _words(shell.ok("suppression", "show", ANN).out)
    assert _mails(shell)[0]["subject"] == SUBJECT.strip()


def _words(shown: str) -> str:
    """Undo how it was wrapped."""
    return " ".join(shown.split())
