"""`mailonce doctor` praises nothing that `mailonce serve` refuses, and says the same of it."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.commands import Done, Shell

SENDER = '[senders.{}]\nprovider = "resend"\nsecret = "s"\n'
# An address that is kept for documents: no machine has it.
ELSEWHERE = "192.0.2.1"


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


def test_an_app_without_handlers_is_found(shell: Shell, subtests: pytest.Subtests) -> None:
    for app in ("nope:handlers", "os:handlers"):
        with subtests.test(app):
            assert f"`app` is {app!r}" in check_both(shell, env={"MAILONCE_APP": app})


def test_what_an_app_prints_is_no_part_of_the_answer(shell: Shell) -> None:
    module = "from mailonce import Handlers\n\nprint('hello')\nhandlers = Handlers()\n"
    (shell.folder / "shop_mail.py").write_text(module)

    done = shell.run("doctor", "--json", env={"MAILONCE_APP": "shop_mail"})

    assert (done.code, failed(done), done.err) == (0, {}, "hello\n")


def test_what_a_running_server_may_import_is_a_warning(shell: Shell) -> None:
    with shell.serving():
        done = shell.run("doctor", "--json", env={"MAILONCE_APP": "nope:handlers"})

    [found] = [one for one in done.json["data"] if "nope" in one["detail"]]
    assert (done.code, found["level"]) == (0, "warn")


def _of_file(shell: Shell) -> None:
    shell.data_dir.write_text("")


def _below_a_file(shell: Shell) -> None:
    (shell.folder / "file").write_text("")
    shell.data_dir.symlink_to("file/below")


def _link_to_nothing(shell: Shell) -> None:
    shell.data_dir.symlink_to("gone")


@pytest.mark.parametrize("make", [_of_file, _below_a_file, _link_to_nothing])
def test_a_data_folder_that_cannot_be_made_is_found(
    shell: Shell, make: Callable[[Shell], None]
) -> None:
    make(shell)

    assert "`data_dir` 'mailonce-data' cannot be made" in check_both(shell)


def test_a_data_folder_below_a_file_is_found(shell: Shell) -> None:
    (shell.folder / "file").write_text("")

    sentence = check_both(shell, env={"MAILONCE_DATA_DIR": "file/a/b"})

    assert "cannot be made (Not a directory)" in sentence


def test_a_certificate_that_cannot_be_used_is_found(
    shell: Shell, subtests: pytest.Subtests
) -> None:
    env = {"MAILONCE_SMTP__CERTIFICATE": "chain.pem"}
    with subtests.test("missing"):
        assert "(No such file or directory)" in check_both(shell, env=env)
    (shell.folder / "chain.pem").write_text("garbage\n")
    with subtests.test("garbage"):
        assert "the certificate 'chain.pem'" in check_both(shell, env=env)
    with subtests.test("no SMTP door"):
        assert shell.run("doctor", env={**env, "MAILONCE_ROLES": '["door"]'}).code == 0
    with subtests.test("network"):
        proxies = {"MAILONCE_SMTP__PROXY_PEERS": '["nowhere"]'}
        assert "smtp.proxy_peers" in check_both(shell, env=proxies)


def test_an_authority_that_cannot_be_used_is_found(shell: Shell, subtests: pytest.Subtests) -> None:
    env = {"MAILONCE_NET__CA_FILE": "ca.pem"}
    with subtests.test("missing"):
        assert "which cannot be read (no such file or directory)" in check_both(shell, env=env)
    (shell.folder / "ca.pem").write_text("garbage\n")
    with subtests.test("garbage"):
        assert "which has no certificate in PEM" in check_both(shell, env=env)


def test_an_address_of_another_machine_is_found(shell: Shell, subtests: pytest.Subtests) -> None:
    key = {"MAILONCE_ADMIN_KEY": "an-admin-key-for-tests", "MAILONCE_PORT": "0"}
    for host in (ELSEWHERE, "no-such-host.invalid", "ü" * 64):
        with subtests.test(host):
            sentence = check_both(shell, env={**key, "MAILONCE_HOST": host})
            assert f"cannot listen on {host}:0" in sentence
    with subtests.test("SMTP"):
        env = {**key, "MAILONCE_SMTP__HOST": ELSEWHERE, "MAILONCE_SMTP__PORT": "0"}
        assert f"cannot listen on {ELSEWHERE}:0" in check_both(shell, env=env)


def test_a_port_that_another_folders_server_has_is_no_fault(shell: Shell) -> None:
    with shell.serving() as url:
        env = {"MAILONCE_PORT": url.rpartition(":")[2]}
        done = shell.run("doctor", "--data-dir", "restored", env=env)

    assert done.code == 0, "a restored backup is looked at beside the server"


def test_a_master_key_that_cannot_be_read_is_found(shell: Shell, subtests: pytest.Subtests) -> None:
    for is_new in (True, False):
        if not is_new:
            (shell.data_dir / "master.key").unlink()
            shell.ok("source", "add", "main", "--provider", "mailgun", "--secret", "s")
        shell.data_dir.mkdir(exist_ok=True)
        for content in (b"", b"\xff\xfe\x80"):
            with subtests.test(f"{is_new} {content!r}"):
                (shell.data_dir / "master.key").write_bytes(content)
                assert "master key" in check_both(shell)


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
