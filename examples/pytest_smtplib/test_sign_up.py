"""A test that reads the code from the mail, of an application that sends with smtplib.

pip install 'mailonce[server]' pytest
pytest test_sign_up.py
"""

import secrets
import smtplib
from email.message import EmailMessage

from mailonce.fixtures.inbox import FixtureInbox
from mailonce.fixtures.server import FixtureServer


class Shop:
    """The application: who signs up gets a code by mail, and needs it to log in."""

    def __init__(self, smtp_host: str, smtp_port: int) -> None:
        self._place = smtp_host, smtp_port
        self._codes: dict[str, str] = {}

    def sign_up(self, address: str) -> None:
        """Send a code."""
        self._codes[address] = f"{secrets.randbelow(1_000_000):06}"
        mail = EmailMessage()
        mail["From"] = "Shop <login@shop.example>"
        mail["To"] = address
        mail["Subject"] = "Your code"
        mail.set_content(f"Your verification code is {self._codes[address]}.")
        with smtplib.SMTP(*self._place) as smtp:
            smtp.send_message(mail)

    def log_in(self, address: str, code: str) -> bool:
        return self._codes.get(address) == code


def test_who_signs_up_can_log_in(mailonce_server: FixtureServer, inbox: FixtureInbox) -> None:
    """The code is read from the mail; no other mail comes."""
    shop = Shop(mailonce_server.smtp_host, mailonce_server.smtp_port)

    shop.sign_up(inbox.address)
    code = inbox.expect_code(sender="login@shop.example")

    assert shop.log_in(inbox.address, code)
    inbox.expect_nothing(0.5)
