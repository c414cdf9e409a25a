"""The pytest plugin as its users run it: in a pytest of its own, alone and with xdist."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.acceptance.harness import ADMIN_KEY, Server, running
from tests.forking import PYTHONPATH
from tests.servers import free_port

EXAMPLES = Path(__file__).parents[2] / "examples"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SUITE = """
import email.utils
import smtplib
import time
import urllib.request

import pytest
from mailonce.errors import ParseError


def send(server, to, subject="hello", text="Hi", sender="shop@example.org", **headers):
    mail = f"From: {sender}\\r\\nTo: {to}\\r\\nSubject: {subject}\\r\\n\\r\\n{text}\\r\\n"
    mail = "".join(f"{name}: {value}\\r\\n" for name, value in headers.items()) + mail
    with smtplib.SMTP(server.smtp_host, server.smtp_port) as smtp:
        smtp.sendmail(sender, [to], mail)


def test_each_message_is_given_once(mailonce_server, inbox):
    send(mailonce_server, inbox.address, "one")
    send(mailonce_server, inbox.address, "two")
    assert inbox.wait_for_message(subject="two").subject == "two"
    assert inbox.wait_for_message().subject == "one"
    assert inbox.wait_for_message().subject == "two"
    inbox.expect_nothing(0.1)


def test_a_code_and_a_link_in_whatever_order_they_came(mailonce_server, inbox):
    send(mailonce_server, inbox.address, "Confirm", "Confirm your email: https://shop.example/v?t=1")
    send(mailonce_server, inbox.address, "Code", "Your verification code is 492817.")
    assert inbox.expect_code(sender="shop@example.org") == "492817"
    assert inbox.expect_link(host="shop.example") == "https://shop.example/v?t=1"


def test_a_second_code_is_waited_for_though_it_is_the_same(mailonce_server, inbox):
    send(mailonce_server, inbox.address, "first", "Your verification code is 492817.")
    assert inbox.expect_code() == "492817"
    send(mailonce_server, inbox.address, "second", "Your verification code is 492817.")
    assert inbox.expect_code() == "492817"
    inbox.expect_nothing(0.1)


def test_a_link_to_a_local_server(mailonce_server, inbox):
    send(mailonce_server, inbox.address, "Confirm", "Confirm: http://localhost:8000/verify?t=1")
    assert inbox.expect_link(host="http://localhost:8000") == "http://localhost:8000/verify?t=1"


def test_the_only_link_and_the_only_code_of_a_format(mailonce_server, inbox):
    send(mailonce_server, inbox.address, "Hi", "Open https://shop.example/s/abc in your browser.")
    send(mailonce_server, inbox.address, "Hi", "Hello 492817")
    assert inbox.expect_link(host="shop.example") == "https://shop.example/s/abc"
    assert inbox.expect_code(code_format="digits:6") == "492817"


@pytest.mark.parametrize("age_s", [150, 86_400, 300 * 86_400])
def test_mail_counts_however_old_it_is(mailonce_server, inbox, age_s):
    date = email.utils.formatdate(time.time() - age_s)
    old = {"Received": f"from a by b; {date}", "Date": date}
    send(mailonce_server, inbox.address, "Code", "Your verification code is 492817.", **old)
    send(mailonce_server, inbox.address, "Link", "Confirm: https://shop.example/v?t=1", **old)
    assert inbox.expect_code(timeout_s=3) == "492817"
    assert inbox.expect_link(host="shop.example", timeout_s=3) == "https://shop.example/v?t=1"


def test_a_sender_with_a_name(mailonce_server, inbox):
    send(mailonce_server, inbox.address, "Code", "Your verification code is 492817.")
    assert inbox.expect_code(sender="Shop <shop@example.org>", timeout_s=3) == "492817"
    assert inbox.wait_for_message(sender="Shop <shop@example.org>", timeout_s=3).subject == "Code"


def test_errors_name_the_arguments_of_the_call(mailonce_server, inbox):
    with pytest.raises(ParseError, match="^`host`: 'a b' is no host"):
        inbox.expect_link(host="a b")
    with pytest.raises(ParseError, match="^`sender` is 'a@-b-'"):
        inbox.expect_code(sender="a@-b-")
    with pytest.raises(ParseError, match="^`subject` has"):
        inbox.expect_code(subject="")


def test_fails_because_of_a_code_without_words(mailonce_server, inbox):
    send(mailonce_server, inbox.address, "Hi", "Hello 492817")
    inbox.expect_code(timeout_s=1)


def test_fails_because_of_a_local_link(mailonce_server, inbox):
    send(mailonce_server, inbox.address, "Hi", "Verify: http://localhost:8000/v")
    inbox.expect_link(host="localhost", timeout_s=1)


def test_fails_because_of_two_codes(mailonce_server, inbox):
    send(mailonce_server, inbox.address, "Welcome", "Hello")
    send(mailonce_server, inbox.address, "Code", "Your code is 111222. Your code is 333444.")
    inbox.expect_code()


def test_fails_because_of_the_sender(mailonce_server, inbox):
    send(mailonce_server, inbox.address, "Code", "Your code is 111222.", "x@attacker.example")
    inbox.expect_code(sender="shop@example.org", timeout_s=1)


def test_an_inbox_is_of_its_test_alone(mailonce_server, inbox):
    assert inbox.messages() == ()
    with mailonce_server.new_inbox(metadata={"who": "bob"}) as other:
        send(mailonce_server, other.address, "for bob")
        assert other.wait_for_message().subject == "for bob"
    inbox.expect_nothing(0.1)


def test_fails_because_another_mail_came(mailonce_server, inbox):
    send(mailonce_server, inbox.address, "Welcome\\x1b[31m")
    inbox.wait_for_message(subject="code", timeout_s=1)


def test_fails_because_mail_came(mailonce_server, inbox):
    send(mailonce_server, inbox.address, "Surprise")
    inbox.expect_nothing(5)


def test_what_was_accepted_is_listed(mailonce_server, inbox):
    for number in range(3):
        send(mailonce_server, inbox.address, f"mail {number}")
        assert len(inbox.messages()) == number + 1


def test_fails_because_a_mail_was_sent_twice(mailonce_server, inbox):
    send(mailonce_server, inbox.address, "Receipt", "Order 17")
    send(mailonce_server, inbox.address, "Receipt", "Order 17")
    assert inbox.wait_for_message().subject == "Receipt"
    assert [one.copies for one in inbox.messages()] == [1]
    inbox.expect_nothing(0.1)


def test_fails_because_two_mails_have_the_code(mailonce_server, inbox):
    send(mailonce_server, inbox.address, "Code 1", "Your code is 481923.")
    send(mailonce_server, inbox.address, "Code 2", "Your code is 481923.")
    assert inbox.expect_code() == "481923"
    inbox.expect_nothing(0.1)


def test_fails_because_another_mail_came_before_the_code(mailonce_server, inbox):
    send(mailonce_server, inbox.address, "Ad", "Buy one, get two")
    send(mailonce_server, inbox.address, "Code", "Your code is 481923.")
    assert inbox.expect_code() == "481923"
    inbox.expect_nothing(0.1)


def test_a_deleted_mail_is_no_fault(mailonce_server, inbox):
    for subject in ("one", "two", "three"):
        send(mailonce_server, inbox.address, subject)
        assert inbox.wait_for_message(subject=subject).subject == subject
    two = inbox.messages()[1]
    request = urllib.request.Request(
        f"{mailonce_server.url}/v1/inboxes/{inbox.id}/messages/{two.id}",
        method="DELETE",
        headers={"Authorization": f"Bearer {mailonce_server.key}"},
    )
    urllib.request.urlopen(request).close()
    assert [one.subject for one in inbox.messages()] == ["one", "three"]
    inbox.expect_nothing(0.1)


def test_fails_because_a_relay_sent_a_copy(mailonce_server, inbox):
    send(mailonce_server, inbox.address, "Hi")
    assert inbox.wait_for_message().subject == "Hi"
    with smtplib.SMTP(mailonce_server.smtp_host, mailonce_server.smtp_port) as smtp:
        lines = f"Received: by relay\\r\\nFrom: shop@example.org\\r\\nTo: {inbox.address}\\r\\n"
        smtp.sendmail("a@b.test", [inbox.address], lines + "Subject: Hi\\r\\n\\r\\nHi\\r\\n")
    inbox.expect_nothing(0)


def test_fails_because_the_same_code_came_in_the_same_mail(mailonce_server, inbox):
    send(mailonce_server, inbox.address, "Code", "Your code is 111222.")
    assert inbox.expect_code() == "111222"
    send(mailonce_server, inbox.address, "Code", "Your code is 111222.")
    inbox.expect_code(timeout_s=1)


def test_fails_because_mail_was_refused(mailonce_server, inbox):
    with mailonce_server.new_inbox(bytes_max=10) as full:
        with pytest.raises(smtplib.SMTPException):
            send(mailonce_server, full.address, "does not")
        full.expect_nothing(0.1)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Iterator[Server]:
    """The server that MAILONCE_URL names."""
    folder = tmp_path_factory.mktemp("plugin")
    database = folder / "data.db"
    database.write_bytes(sqlite_template.read_bytes())
    with running(
        Server(folder / "server", f"sqlite:///{database}", "", smtp_port=free_port())
    ) as started:
        yield started


def run_pytest(
    folder: Path,
    *options: str,
    server: Server | None = None,
    environment: Mapping[str, str] | None = None,
) -> tuple[int, str]:
    """Run the tests of a folder as a user does; give the exit code and what was printed."""
    others = ("MAILONCE", "PYTEST")
    kept = {name: os.environ[name] for name in os.environ if not name.startswith(others)}
    given = {**kept, "PYTHONPATH": PYTHONPATH, **(environment or {})}
    if server is not None:
        given["MAILONCE_URL"] = server.url
        given["MAILONCE_KEY"] = ADMIN_KEY
        given["MAILONCE_SMTP_ADDRESS"] = f"127.0.0.1:{server.smtp_port}"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
        cwd=folder,
        env=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stdout + done.stderr


def test_inboxes_of_a_server_that_the_environment_names(tmp_path: Path, server: Server) -> None:
    (tmp_path / "test_shop.py").write_text(SUITE)

    code, printed = run_pytest(tmp_path, server=server)

    assert code == 1, printed
    assert "12 failed, 13 passed" in printed
    assert re.search(r"seq +received +from +subject +times\n", printed)
    assert re.search(r"the same mail came to \S+ more than once:\n", printed)
    assert re.search(r"1 +\d{4}-\S+ +shop@example\.org +Receipt +2\n", printed)
    assert "copies of a mail count once:\n" in printed
    assert "an earlier call gave these already:\n" in printed
    # Where CI is set, pytest prints each failure whole a second time.
    assert len(set(re.findall(r"mail came to (\S+) that the test was not given:\n", printed))) == 3
    assert re.search(r"1 +\d{4}-\S+ +shop@example\.org +Ad +1\n", printed)
    assert re.search(r"1 +\d{4}-\S+ +shop@example\.org +Welcome", printed)
    assert "no mail from anybody about 'code' came to" in printed
    assert re.search(r"last +reason +code +times\n", printed)
    assert re.search(r"no code for \S+ within 30 s: ambiguous, equally good\n", printed)
    assert re.search(r"seq +from +outcome +because +for\n", printed)
    assert re.search(r"1 +x@attacker\.example +\w+ +sender: other_sender", printed)
    assert "seq 1: 492817 seen, but too little says that it is the code; pass code_fo" in printed
    assert 'to allow that, name it whole: "http://localhost:8000"' in printed
    assert "\x1b" not in printed
    assert server.get("/v1/inboxes")["data"] == [], "each is deleted when its test has ended"


@pytest.mark.long
def test_each_process_of_xdist_starts_a_server_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "test_shop.py").write_text(SUITE)

    code, printed = run_pytest(tmp_path, "-n", "2", "-k", "not fails")

    assert code == 0, printed
    assert "13 passed" in printed


@pytest.mark.long
def test_processes_of_xdist_share_a_server_that_the_environment_names(
    tmp_path: Path, server: Server
) -> None:
    (tmp_path / "test_shop.py").write_text(SUITE)

    code, printed = run_pytest(tmp_path, "-n", "2", "-k", "not fails", server=server)

    assert code == 0, printed
    assert "13 passed" in printed


def test_a_suite_that_does_not_use_it_pays_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_plain.py").write_text(
        "import sys\n\n\ndef test_plain():\n"
        "    ours = {name for name in sys.modules if name.startswith('mailonce')}\n"
        "    core = {name for name in ours if name.startswith('mailonce.core')}\n"
        "    assert ours - core == {'mailonce', 'mailonce.pytest_plugin'}\n"
        "    assert len(core) <= 3\n"
    )

    code, printed = run_pytest(tmp_path)

    assert code == 0, printed


def test_each_example_runs(server: Server, tmp_path: Path) -> None:
    chromium = next(filter(None, map(shutil.which, BROWSERS)), None)
    names = [path.name for path in EXAMPLES.glob("pytest_*")]
    if chromium is None:
        # tests/browser/install.sh says why.
        names.remove("pytest_playwright")
    variables = {"CHROMIUM": chromium or "", "PYTHONPYCACHEPREFIX": str(tmp_path)}
    folders = [f"examples/{name}" for name in names]

    code, printed = run_pytest(
        EXAMPLES.parent, "-v", *folders, server=server, environment=variables
    )

    assert code == 0, printed
    assert f"rootdir: {EXAMPLES}\nconfigfile: pytest.ini" in printed, "not with our own settings"
    assert len(names) >= 2
    assert f"{len(names)} passed" in printed
