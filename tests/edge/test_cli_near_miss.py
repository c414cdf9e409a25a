"""Options that people write out of habit: the error names the one that is meant."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from mailonce.edge.cli.main import app
from mailonce.errors import ConfigError


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        ("events --address ann@example.net", "write --recipient"),
        ("events list --event=bounced", "write --type"),
        ("events --after 2h", "write --since"),
        ("events -n 5", "write --limit"),
        ("inbox messages ann@in.test --from bob@in.test", "write --sender"),
        ("inbox messages --inbox ann@in.test", "write the INBOX by itself"),
        ("inbox create --name ann", "write the LOCAL by itself"),
        ("mail m.eml --inbox ann@in.test", "write --to"),
        ("message --id m-1", "write the MESSAGE_ID by itself"),
        ("redeliver --id dlv_1", "write the ID by itself"),
        ("delivery list --status failed", "write --state"),
        ("dead list --type delivery", "write --kind"),
        ("source add main --type postmark", "write --provider"),
        ("serve --smtp 2525", "write --smtp-port"),
        ("init", "mailonce serve` makes its folder, database and keys"),
        ("--data-dir x start --port 1", "there is no command 'start'"),
        ("migrate", "and starts the server"),
    ],
)
def test_an_option_of_habit_is_answered_with_the_one_that_is_meant(
    command: str, advice: str
) -> None:
    done = CliRunner().invoke(app, command.split())

    assert done.exit_code == 2
    assert advice in " ".join(done.stderr.replace("│", " ").split())


def test_a_word_that_is_no_start_is_answered_as_before() -> None:
    for command in ("initial", "key init", "source up"):
        done = CliRunner().invoke(app, command.split())

        assert done.exit_code == 2
        assert "No such command" in done.stderr
        assert "serve" not in done.stderr


def test_a_command_that_has_such_an_option_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    done = CliRunner().invoke(app, ["send", "ann@example.net", "--from", "bob@example.net"])

    # It is understood, and refused since nothing is in this folder.
    assert isinstance(done.exception, ConfigError), done.stderr
