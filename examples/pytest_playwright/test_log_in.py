"""A test in a real browser: the code of the mail is typed into the page.

pip install 'mailonce[server]' pytest playwright && playwright install chromium
pytest test_log_in.py

CHROMIUM may name the program of a browser that is installed already.
"""

import os
import secrets
import smtplib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, sync_playwright

from mailonce.fixtures.inbox import FixtureInbox
from mailonce.fixtures.server import FixtureServer

ASK = "<form action=/code><input name=email><button>Send code</button></form>"
ENTER = "<form action=/enter><input name=code><button>Log in</button></form>"


@pytest.fixture
def shop(mailonce_server: FixtureServer) -> Iterator[str]:
    """An application that mails a code, and asks for it on its next page."""
    code = f"{secrets.randbelow(1_000_000):06}"

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = parse_qs(parts.query)
            page = ASK
            if parts.path == "/code":
                self._send_mail(query["email"][0])
                page = ENTER
            elif parts.path == "/enter":
                page = "Welcome!" if query.get("code") == [code] else "Wrong code."
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
            """Say nothing."""

        def _send_mail(self, address: str) -> None:
            mail = f"From: login@shop.example\nTo: {address}\n\nYour login code is {code}.\n"
            with smtplib.SMTP(mailonce_server.smtp_host, mailonce_server.smtp_port) as smtp:
                smtp.sendmail("login@shop.example", [address], mail)

    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture
def page() -> Iterator[Page]:
    """A page of Chromium."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM"), args=["--no-sandbox"]
        )
        yield browser.new_page()
        browser.close()


def test_the_code_of_the_mail_logs_in(shop: str, page: Page, inbox: FixtureInbox) -> None:
    """Type the address, then the code that came."""
    page.goto(shop)
    page.fill("input[name=email]", inbox.address)
    page.click("button")

    page.fill("input[name=code]", inbox.expect_code(sender="login@shop.example"))
    page.click("button")

    page.wait_for_selector("text=Welcome!")
