"""Requests to send, for tests."""

from typing import Any

from mailonce.core.reading.values import address_of
from mailonce.core.sends.outgoing_mail import Mailbox
from mailonce.core.sends.send_key import given_key
from mailonce.core.sends.send_request import Recipient, SendRequest


def make_recipient(address: str, name: str = "", **variables: Any) -> Recipient:
    return Recipient(Mailbox(address, name), address_of(address), variables)


def make_request(*recipients: str, **changes: Any) -> SendRequest:
    given: dict[str, Any] = {
        "key": given_key("k-1"),
        "recipients": tuple(make_recipient(one) for one in recipients or ("ann@example.com",)),
        "from_": Mailbox("shop@example.com", "Shop"),
        "subject": "Your order",
        "text": "Thank you.",
    }
    return SendRequest(**given | changes)
