"""The Python of the other pages: run beside a real server, with the reader's own parts in place."""

import os
import smtplib
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import create_engine, text

from mailonce import Client, Handlers
from mailonce.core.deliveries.route import RouteSecret
from mailonce.core.deliveries.signing import new_secret, signature_headers
from mailonce.testing import HostileMail, SafeUse, hostile_mails
from tests import forking
from tests.documents.blocks import find_block
from tests.documents.code import commented_values, run_awaiting, run_block
from tests.documents.shell import ADMIN_KEY, Bash, open_bash
from tests.servers import wait_for

BOUNCE = {
    "RecordType": "Bounce",
    "ID": 42,
    "Type": "HardBounce",
    "MessageID": "m-1",
    "Email": "ann@example.net",
}
HOOKS = '[sources.hooks]\nprovider = "postmark"\nbasic = "hook:word"\n'
# A reader's application, as far as the pages need it.
READERS_OWN = '''
import smtplib
import urllib.request

import pytest


def sign_up(address, smtp):
    with smtplib.SMTP(*smtp) as server:
        mail = "From: shop@example.com\\n\\nYour code is 492817."
        server.sendmail("shop@example.com", address, mail)


def log_in(address, code):
    return code == "492817"


class Mailer:
    """Sends each receipt once, and does not send again what may have been sent."""

    def __init__(self):
        self.tried = set()

    def configure(self, url, token):
        self.url, self.token = url, token

    async def send_receipt(self, order):
        import httpx

        if order in self.tried:
            return
        self.tried.add(order)
        mail = {"From": "shop@example.com", "To": "ann@example.net"}
        mail |= {"Subject": order, "TextBody": "Thank you."}
        headers = {"X-Postmark-Server-Token": self.token}
        async with httpx.AsyncClient(timeout=0.5) as client:
            try:
                await client.post(self.url + "/email", json=mail, headers=headers)
            except httpx.TimeoutException:
                pass


@pytest.fixture
def my_mailer():
    return Mailer()
'''
# It takes what is signed by SendGrid's key, and counts each event once.
READERS_RECEIVER = """
import asyncio
import base64
import json

import pytest_asyncio
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from aiohttp import web


class Receiver:
    def __init__(self):
        self.counted, self.public_key, self.url = {}, "", ""

    async def take(self, request):
        body = await request.read()
        key = serialization.load_der_public_key(base64.b64decode(self.public_key))
        stamp = request.headers["X-Twilio-Email-Event-Webhook-Timestamp"].encode()
        signature = request.headers["X-Twilio-Email-Event-Webhook-Signature"]
        try:
            key.verify(base64.b64decode(signature), stamp + body, ec.ECDSA(hashes.SHA256()))
        except (InvalidSignature, ValueError):
            return web.Response(status=401)
        for event in json.loads(body):
            self.counted.setdefault(event["sg_event_id"], 1)
        return web.Response()


@pytest_asyncio.fixture
async def my_receiver():
    receiver = Receiver()
    app = web.Application()
    app.router.add_post("/", receiver.take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    receiver.url = "http://127.0.0.1:%d/" % site._server.sockets[0].getsockname()[1]
    yield receiver
    await runner.cleanup()
"""
# It mails a link to itself, and knows whose link was opened.
READERS_APPLICATION = """
import http.server
import threading


class Application(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.confirmed.append(self.path.partition("=")[2])
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def my_application():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Application) as server:
        server.confirmed, server.url = [], f"http://localhost:{server.server_port}"

        def sign_up(address, smtp):
            with smtplib.SMTP(*smtp) as mail:
                link = f"{server.url}/confirm?who={address}"
                words = f"From: shop@example.com\\n\\nConfirm: {link}\\n"
                mail.sendmail("shop@example.com", address, words)

        server.sign_up = sign_up
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()
"""


def mail_a_code(server: Bash, address: str) -> None:
    with smtplib.SMTP("127.0.0.1", server.smtp_port) as smtp:
        words = "From: shop@example.com\nSubject: Your code\n\nYour code is 492817.\n"
        smtp.sendmail("shop@example.com", address, words)


def test_a_client_waits_for_a_mail(server: Bash, capsys: pytest.CaptureFixture[str]) -> None:
    run_block(
        "agents.md | The client, for programs and agents | 1",
        ("http://127.0.0.1:8100", server.url),
        ("mok_…", ADMIN_KEY),
        sign_up=lambda address: mail_a_code(server, address),
    )

    assert "Your code is 492817." in capsys.readouterr().out


async def test_an_awaited_client_reads_what_came(
    server: Bash, capsys: pytest.CaptureFixture[str]
) -> None:
    with Client(server.url, ADMIN_KEY) as client:
        inbox = client.make_inbox()
        mail_a_code(server, inbox.address)
        client.wait_for_message(inbox)
    names = run_block(
        "agents.md | The client, for programs and agents | 2",
        ("http://127.0.0.1:8100", server.url),
        ("mok_…", ADMIN_KEY),
    )

    await names["print_messages"](inbox.address)

    assert capsys.readouterr().out == "1 Your code\n"


def test_a_client_sends_under_each_kind_of_key(server: Bash) -> None:
    keys: list[str] = []
    with Client(server.url, ADMIN_KEY) as client:
        template = {"subject": "Receipt", "text": "Thanks"}
        answer = httpx.put(
            f"{server.url}/v1/templates/receipt",
            json=template,
            headers={"Authorization": f"Bearer {ADMIN_KEY}"},
        )
        assert answer.is_success, answer.text

        run_block("agents.md | The key of a send | 1", client=client, store=keys.append)

    assert len(keys) == 1


def test_a_client_finds_and_cancels_what_it_sent(server: Bash) -> None:
    name = "agents.md | The key of a send | 2"
    with Client(server.url, ADMIN_KEY) as client:
        names = run_block(name, client=client)

        shown = client.find_send(names["later"]).json

    assert shown["state"] == "cancelled"
    assert [value for _, value in commented_values(name)] == ['"pending"', '"cancelled"']


def test_a_client_uses_a_code_once(server: Bash) -> None:
    values: list[str] = []

    def log_in(value: str) -> bool:
        values.append(value)
        return True

    with Client(server.url, ADMIN_KEY) as client:
        run_block(
            "agents.md | A code, used once | 1",
            client=client,
            sign_up=lambda address: mail_a_code(server, address),
            log_in=log_in,
        )

    assert values == ["492817"]


def test_a_child_key_opens_its_expectation(server: Bash) -> None:
    with Client(server.url, ADMIN_KEY) as client:
        opened = client.open_expectation(None, "code")
    admin = {"Authorization": f"Bearer {ADMIN_KEY}"}
    body = {"scope": "agent", "name": "parent"}
    agent = httpx.post(f"{server.url}/v1/keys", json=body, headers=admin).json()["key"]
    names = run_block(
        "expectations.md | What a key sees | 1",
        ("exp_…", opened.id),
        agent_key=agent,
        now_ms=int(time.time() * 1000),
    )

    answer = httpx.get(
        f"{server.url}/v1/expectations/{opened.id}",
        headers={"Authorization": f"Bearer {names['key']}"},
    )

    assert answer.status_code == 200, answer.text


def test_a_delivery_is_verified_in_a_few_lines() -> None:
    names = run_block("deliveries.md | What arrives | 2")
    secrets = [RouteSecret(value=new_secret(bytes([one]) * 32)) for one in (1, 2)]
    now_ms = int(time.time() * 1000)
    headers = signature_headers("9f2c", b"{}", secrets, now_ms=now_ms)
    stale = signature_headers("9f2c", b"{}", secrets, now_ms=now_ms - 400_000)

    verified = [names["is_signed"](one.value, headers, b"{}") for one in secrets]
    changed = names["is_signed"](secrets[0].value, headers, b"{ }")
    foreign = names["is_signed"](new_secret(bytes(32)), headers, b"{}")
    old = names["is_signed"](secrets[0].value, stale, b"{}")
    unsigned = names["is_signed"](secrets[0].value, {}, b"{}")

    assert (verified, changed, foreign) == ([True, True], False, False)
    assert (old, unsigned) == (False, False)


def test_what_is_extracted_is_what_the_comments_say() -> None:
    name = "extraction.md | Codes, links and states in mail | 1"
    names = run_block(name)

    values = commented_values(name)

    assert len(values) == 3
    assert [str(eval(code, names)) for code, _ in values] == [v.strip('"') for _, v in values]


async def test_the_fake_mail_server_goes_away_before_it_says_so() -> None:
    import asyncio

    async def send(port: int) -> None:
        def deliver() -> None:
            with smtplib.SMTP("127.0.0.1", port) as smtp:
                smtp.login("mail", "word")
                smtp.sendmail("shop@example.com", ["ann@example.net"], "Subject: Hi\n\nHi\n")

        with pytest.raises(smtplib.SMTPException):
            await asyncio.to_thread(deliver)

    await run_awaiting(
        "fakes.md | The mail server | 1", ("    ...  ", "    await send(server.port)  "), send=send
    )


def test_a_post_of_the_inbound_hook_is_accepted(tmp_path: Path) -> None:
    names = run_block(
        "inbound.md | Try it | 1", mail=b"Subject: Hi\r\n\r\nHi\r\n", now=int(time.time())
    )
    post = names["post"]
    settings = "\n".join(f"{name} = {value!r}" for name, value in names["settings"].items())
    folder = tmp_path / "folder"
    with open_bash(folder) as bash:
        (folder / "mailonce.toml").write_text(f"[sources.mail]\n{settings}\n")
        bash.start_server()
        answer = httpx.post(f"{bash.url}/in/mail", content=post.body, headers=dict(post.headers))

    assert (answer.status_code, answer.json()["status"]) == (200, "accepted")


def test_an_agent_that_uses_nothing_is_judged(server: Bash) -> None:
    names = run_block("simulate.md | Hostile mails | 2", my_agent=lambda _: None, pytest=pytest)
    mail: HostileMail = next(one for one in hostile_mails() if SafeUse.WAIT in one.safe)
    with Client(server.url, ADMIN_KEY) as client:
        inbox = client.make_inbox()
        place = type("Place", (), {"smtp_host": "127.0.0.1", "smtp_port": server.smtp_port})

        names["test_my_agent_survives"](mail, place, inbox)

        wait_for(lambda: len(client.read_messages(inbox)) == 1, what="the mail to be read")


def test_the_readmes_handler_marks_an_address(tmp_path: Path) -> None:
    handlers = Handlers()
    names = run_block("README.md | Where events go | 3", handlers=handlers, text=text)
    engine = create_engine(f"sqlite:///{tmp_path / 'marks.db'}")
    with engine.begin() as tx:
        tx.execute(text("CREATE TABLE crm_marks (address text)"))

        names["mark"]({"recipient": "ann@example.net"}, tx)

        assert tx.execute(text("SELECT * FROM crm_marks")).fetchall() == [("ann@example.net",)]
    engine.dispose()


def test_handlers_run_as_the_page_says(tmp_path: Path) -> None:
    """The module of the page, its table, `serve --app`, and the program of your own."""
    folder = tmp_path / "folder"
    with open_bash(folder) as bash:
        (folder / "shop").mkdir()
        (folder / "shop/mail.py").write_text(find_block("handlers.md | Handlers | 1").text)
        (folder / "mailonce.toml").write_text(HOOKS)
        program = find_block("handlers.md | In a program of your own | 1").text
        (folder / "program.py").write_text(f"from shop.mail import handlers\n{program}")
        bash.run(find_block("handlers.md | Handlers | 2"))
        bash.run(find_block("handlers.md | Handlers | 3"))
        log = folder / "program.log"
        environment = bash._environment()
        own = forking.start(
            forking.Command([str(folder / "program.py")], str(folder), str(log), environment)
        )
        bash.server = own
        wait_for(bash._is_ready, what="the program of your own")
        answer = httpx.post(f"{bash.url}/in/hooks", json=BOUNCE, auth=("hook", "word"))
        assert answer.status_code == 200, answer.text
        wait_for(lambda: marks(folder) == [("ann@example.net", "bounced")], what="the mark")


def marks(folder: Path) -> list[Any]:
    with sqlite3.connect(folder / "mailonce-data/mailonce.db") as connection:
        return connection.execute("SELECT address, why FROM crm_marks").fetchall()


def test_tests_of_the_reader_pass(tmp_path: Path) -> None:
    """What the pages show as tests, in one run of pytest."""
    blocks = {
        "test_page.py": "pytest.md | Mail in your tests | 1",
        "test_inboxes.py": "pytest.md | Mail in your tests | 2",
        "test_redeem.py": "pytest.md | Settings of the server | 2",
        "test_sends.py": "pytest.md | An application that sends through mailonce | 1",
        "test_webhooks.py": "pytest.md | Webhooks of a simulated provider | 1",
        "test_fakes.py": "fakes.md | Fakes of providers' APIs | 1",
        "test_simulate.py": "simulate.md | In your own tests | 1",
    }
    settings = find_block("pytest.md | Settings of the server | 1").text
    parts = (READERS_OWN, READERS_RECEIVER, READERS_APPLICATION, settings)
    (tmp_path / "conftest.py").write_text("".join(parts))
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    for file, name in blocks.items():
        imports = "from conftest import log_in, sign_up\n"
        (tmp_path / file).write_text(imports + find_block(name).text)
    kept = {name: os.environ[name] for name in os.environ if not name.startswith("MAILONCE")}

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"],
        cwd=tmp_path,
        env={**kept, "PYTHONPATH": forking.PYTHONPATH, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "8 passed" in done.stdout, done.stdout + done.stderr
