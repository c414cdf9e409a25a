"""The commands of the documents, typed into a real bash beside a real server."""

import re
import smtplib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import httpx
import pytest

from mailonce.testing import make_simulator
from tests.documents.blocks import ROOT, Block, find_block
from tests.documents.shell import ADMIN_KEY, Bash, open_bash
from tests.documents.where_run import ON_A_SERVER, ON_THEIR_OWN

AUTHORIZED = {"Authorization": f"Bearer {ADMIN_KEY}"}
BOUNCE = (
    '{"RecordType": "Bounce", "ID": 42, "Type": "HardBounce", "MessageID": "m-42", '
    '"Email": "cat@example.net"}'
)
# What a page takes for granted: a source that bounces come from.
AN_EVENT = f"""
curl -s "$SERVER/v1/sources" -H "$A" -d '{{"name": "main", "provider": "postmark", "basic": "u:p"}}'
curl -sf -u u:p "$SERVER/in/main" -d '{BOUNCE}'
"""
# A route whose endpoint refuses, which makes a dead letter at once, and is then repaired.
A_DEAD_LETTER = f"""
curl -sf "$SERVER/v1/sources" -H "$A" -d \
  '{{"name": "sink", "provider": "postmark", "allow_ips": ["127.0.0.1"]}}'
curl -sf -X PATCH "$SERVER/v1/routes/crm" -H "$A" -d "{{\\"url\\": \\"$SERVER/hooks\\"}}"
{AN_EVENT.replace("42", "43")}
for _ in $(seq 600); do mailonce dead list --json | grep dead_ && break; sleep 0.05; done
mailonce delivery list --json
curl -sf -X PATCH "$SERVER/v1/routes/crm" -H "$A" -d "{{\\"url\\": \\"$SERVER/in/sink\\"}}"
"""
# Endpoints of the pages are not there, which these commands tell.
MAY_FAIL = ("mailonce route test", "mailonce redeliver", "mailonce dead retry")
AN_INBOX = """curl -s "$SERVER/v1/inboxes" -H "$A" -d '{"local": "ann"}' > made
"""
# A mail server tries until there is such an inbox.
A_MAIL = """
until echo 'Subject: Hello' | curl -s "$SMTP" --crlf --mail-rcpt ann@inbox.localhost -T -
do sleep 0.1; done &
"""


def test_blocks_that_need_a_server(server: Bash, subtests: pytest.Subtests) -> None:
    for name in ON_A_SERVER:
        block = find_block(name)
        with subtests.test(name), SIGNED_UP.get(name, nothing)(server):
            server.run(block, may_fail=MAY_FAIL, before=BEFORE.get(name, ""))


@pytest.mark.parametrize("names", ON_THEIR_OWN, ids=lambda names: names[0])
def test_blocks_that_start_their_own(names: tuple[str, ...], tmp_path: Path) -> None:
    for number, name in enumerate(names):
        with open_bash(tmp_path / f"{number}") as bash:
            bash.run(find_block(name))
            bash.interrupt()


@pytest.mark.parametrize("provider", ["hmac", "mandrill", "postal", "ses"])
def test_the_command_of_a_providers_page_adds_a_source(server: Bash, provider: str) -> None:
    page = (ROOT / f"docs/providers/{provider}.md").read_text()
    command = re.search(r"Or on the command line: `(.*)`\.", page)
    assert command is not None
    settings = make_simulator(provider).settings()
    secret = settings.get("secret") or settings.get("public_key", "")
    (server.folder / f"{provider}.key").write_text(str(secret))
    line = command[1].replace("add main", f"add {provider}").replace("@FILE", f"@{provider}.key")

    server.run(Block("page", provider, 1, "sh", f"{line}\n", 1))


def test_a_command_that_fails_would_be_seen(tmp_path: Path) -> None:
    with (
        open_bash(tmp_path / "folder") as bash,
        pytest.raises(AssertionError, match="No such command"),
    ):
        bash.run(Block("page", "heading", 1, "sh", "mailonce no-such-command\n", 1))


def test_an_output_that_is_another_would_be_seen(server: Bash) -> None:
    wrong = 'curl -s localhost:8100/v1/access -H "$A"\n# {"scope": "nobody"}\n'
    with pytest.raises(AssertionError, match="nobody"):
        server.run(Block("page", "heading", 1, "sh", wrong, 1))
    with pytest.raises(AssertionError, match="another output"):
        server.run(
            Block("page", "heading", 1, "console", "$ mailonce --version\nanother output\n", 1)
        )


@contextmanager
def nothing(bash: Bash) -> Iterator[None]:
    del bash
    yield


@contextmanager
def signing_up(bash: Bash) -> Iterator[None]:
    """Be the shop: send a code to whoever expects one."""
    ended = threading.Event()

    def send_codes() -> None:
        while not ended.wait(0.05):
            opened = httpx.get(f"{bash.url}/v1/expectations", headers=AUTHORIZED).json()["data"]
            for one in opened:
                if one["state"] == "pending":
                    with smtplib.SMTP("127.0.0.1", bash.smtp_port) as smtp:
                        text = "From: no-reply@shop.example\n\nYour code is 734120.\n"
                        smtp.sendmail("no-reply@shop.example", one["address"], text)
                    ended.wait(2)

    sending = threading.Thread(target=send_codes)
    sending.start()
    try:
        yield
    finally:
        ended.set()
        sending.join()


BEFORE: dict[str, str] = {
    "deliveries.md | Send it again | 1": A_DEAD_LETTER,
    "expectations.md | Expectations: one code, one link, used once | 2": AN_INBOX,
    "inboxes.md | Inboxes | 1": A_MAIL,
    "poll.md | Polling | 2": AN_EVENT.replace("42", "44"),
    "develop.md | `mailonce listen`: events on a local port | 1": AN_EVENT,
}
SIGNED_UP: dict[str, Callable[[Bash], AbstractContextManager[None]]] = {
    "expectations.md | Expectations: one code, one link, used once | 1": signing_up,
}
