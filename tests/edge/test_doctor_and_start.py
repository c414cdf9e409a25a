"""`mailonce doctor` praises nothing that `mailonce serve` refuses, and says the same of it."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.commands import Done, Shell

SENDER = '[senders.{}]\nprovider = "resend"\nsecret = "s"\n'


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def failed(done: Done) -> dict[str, str]:
    """Give what doctor found broken, by its sentence."""
    return {one["detail"]: one["check"] for one in done.json["data"] if one["level"] == "fail"}


def add_sender(shell: Shell, name: str, *options: str) -> None:
    (shell.folder / "secret").write_text("s")
    shell.ok("sender", "add", name, "--provider", "resend", "--secret", "@secret", *options)


def check_both(
    shell: Shell, *, code: int = 2, check: str = "settings", env: Mapping[str, str] | None = None
) -> str:
    """See that doctor and a start refuse in the same words; give them."""
    done = shell.run("doctor", "--json", env=env)
    started = shell.run("serve", "--port", "0", "--smtp-port", "0", env=env)

    assert (done.code, started.code) == (1, code), done.out + started.err
    assert "Traceback" not in done.err + started.err
    [(sentence, found)] = failed(done).items()
    assert found == check
    assert started.err.endswith(f"mailonce: {sentence}\n"), (sentence, started.err)
    return sentence


def test_more_records_than_a_workspace_may_have_are_counted(
    shell: Shell, subtests: pytest.Subtests
) -> None:
    records = {
        "source": (1_000, 'provider = "mailgun"\nsecret = "s"'),
        "route": (200, 'url = "https://example.com/x"'),
        "sender": (50, 'provider = "resend"\nsecret = "s"'),
    }
    file = shell.folder / "mailonce.toml"
    for noun, (most, record) in records.items():
        tables = [f"[{noun}s.r{number}]\n{record}\n" for number in range(most + 1)]
        with subtests.test(noun):
            file.write_text("".join(tables))
            assert f"at most {most} {noun}s" in check_both(shell, code=1)
            file.write_text("".join(tables[:-1]))
            assert shell.run("doctor").code == 0


def test_records_of_the_database_are_counted_with_those_of_the_file(shell: Shell) -> None:
    file = shell.folder / "mailonce.toml"
    with shell.serving():
        add_sender(shell, "other")
    file.write_text("".join(SENDER.format(f"r{number}") for number in range(50)))

    stopped = check_both(shell, code=1)
    file.write_text("".join(SENDER.format(f"r{number}") for number in range(49)))
    with shell.serving():
        # Those that stand already are no further ones.
        again = shell.run("doctor", "--json")

    assert "at most 50 senders" in stopped
    assert (again.code, failed(again)) == (0, {})


def test_a_sender_stays_with_its_provider(shell: Shell) -> None:
    file = shell.folder / "mailonce.toml"
    file.write_text(SENDER.format("main"))
    with shell.serving():
        file.write_text(SENDER.format("main").replace("resend", "sendgrid"))
        running = shell.run("doctor", "--json")

    sentence = check_both(shell)

    assert "is one of resend, and stays so" in sentence
    assert failed(running) == {sentence: "settings"}


def test_a_circle_through_a_sender_of_the_database_is_found(shell: Shell) -> None:
    file = shell.folder / "mailonce.toml"
    file.write_text(SENDER.format("main"))
    with shell.serving():
        add_sender(shell, "spare", "--next-sender", "main")
        file.write_text(SENDER.format("main") + 'next_sender = "spare"\n')
        running = shell.run("doctor", "--json")

    sentence = check_both(shell)

    assert "leads in a circle: main → spare → main" in sentence
    assert failed(running) == {sentence: "settings"}


def test_a_database_that_is_none_is_found(shell: Shell, subtests: pytest.Subtests) -> None:
    file = shell.data_dir / "mailonce.db"
    shell.data_dir.mkdir()
    with subtests.test("garbage"):
        file.write_bytes(b"no database at all, but long enough" * 40)
        assert "(SQLITE_NOTADB); restore it" in check_both(shell, check="database")
    file.unlink()
    file.mkdir()
    with subtests.test("folder"):
        sentence = check_both(shell, check="database")
        assert "mailonce.db cannot be opened as a SQLite database" in sentence
