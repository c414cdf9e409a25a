"""The parts that many providers' calls share."""

from base64 import b64encode
from typing import Any
from urllib.parse import urlencode

import orjson
from msgspec.structs import replace

from mailonce.core.sends import header_text
from mailonce.core.sends.outgoing_mail import Mailbox, OutgoingAttachment, OutgoingMail
from mailonce.core.sends.sender import Sender
from mailonce.core.sends.sending import ID_HEADER, Correlation, HttpRequest

JSON = ("Content-Type", "application/json")


def json_post(url: str, body: Any, *headers: tuple[str, str]) -> HttpRequest:
    return HttpRequest(url=url, headers=(JSON, *headers), body=orjson.dumps(body))


def get(url: str, query: dict[str, str | int] | None = None) -> HttpRequest:
    """Ask; a question has no body, and may be asked again."""
    return HttpRequest(method="GET", url=f"{url}?{urlencode(query)}" if query else url)


def with_headers(request: HttpRequest, *headers: tuple[str, str]) -> HttpRequest:
    return replace(request, headers=(*request.headers, *headers))


def secret(sender: Sender) -> str:
    return sender.secrets[0] if sender.secrets else ""


def bearer(request: HttpRequest, sender: Sender, now_ms: int) -> HttpRequest:
    """Authorize by a token, as most do."""
    del now_ms
    return with_headers(request, ("Authorization", f"Bearer {secret(sender)}"))


def basic(request: HttpRequest, username: str, password: str) -> HttpRequest:
    token = b64encode(f"{username}:{password}".encode()).decode()
    return with_headers(request, ("Authorization", f"Basic {token}"))


def base(sender: Sender, default: str) -> str:
    """Give the URL that paths are added to."""
    return (sender.endpoint or default).rstrip("/")


def email_and_name(mailbox: Mailbox) -> dict[str, str]:
    """Write a mailbox as most APIs take it."""
    address = {"email": header_text.ascii_domain(mailbox.address)}
    return {**address, "name": mailbox.name} if mailbox.name else address


def files_and_inline(
    mail: OutgoingMail,
) -> tuple[list[OutgoingAttachment], list[OutgoingAttachment]]:
    """Part the attachments: those beside the mail, and those shown inside of it."""
    files = [one for one in mail.attachments if one.content_id is None]
    return files, [one for one in mail.attachments if one.content_id is not None]


def content(attachment: OutgoingAttachment) -> str:
    return b64encode(attachment.content).decode()


def headers_of(mail: OutgoingMail, correlation: Correlation) -> dict[str, str]:
    """Give the headers that an API is to add: the mail's own, and our id."""
    return {ID_HEADER: correlation.uuid, **dict(mail.headers)}


def clean(value: Any) -> Any:
    """Leave out what a mail does not have: None, and empty texts, lists and objects."""
    if isinstance(value, dict):
        return {name: clean(one) for name, one in value.items() if one not in (None, "", [], {})}
    return value
