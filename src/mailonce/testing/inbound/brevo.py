"""Brevo posts what it read from a mail; attachments are fetched by a token each."""

from typing import Any

import orjson

from mailonce.core.arrivals.mail_fetch import FetchAnswer
from mailonce.testing.mail import SimulatedHook, SimulatedMail, signed_post
from mailonce.testing.simulator import Post, Simulator

ATTACHMENTS = "https://api.brevo.com/v3/inbound/attachments/"


def write(simulator: Simulator, mail: SimulatedMail, mode: str, now_s: int) -> list[Post]:
    del mode
    headers: dict[str, Any] = {}
    for name, value in mail.headers:
        headers.setdefault(name, []).append(value)
    attachments = []
    for number, file in enumerate(mail.files):
        token = f"{mail.id}-{number}"
        answer = FetchAnswer(status=200, headers={"content-type": file.type}, body=file.content)
        simulator.answers[ATTACHMENTS + token] = answer
        attachments.append(
            {
                "Name": file.name,
                "ContentType": file.type,
                "ContentLength": len(file.content),
                "ContentID": file.content_id,
                "DownloadToken": token,
            }
        )
    item = {
        "Uuid": [mail.id],
        "MessageId": mail.header("Message-ID"),
        "InReplyTo": None,
        "From": next(iter(_people(mail, "From")), None),
        "To": _people(mail, "To"),
        "Cc": _people(mail, "Cc"),
        "ReplyTo": next(iter(_people(mail, "Reply-To")), None),
        "SentAtDate": mail.header("Date"),
        "Subject": mail.header("Subject"),
        "Attachments": attachments,
        "Headers": {name: some if len(some) > 1 else some[0] for name, some in headers.items()},
        "SpamScore": 0.1,
        "RawHtmlBody": mail.html,
        "RawTextBody": mail.text,
    }
    return [signed_post(simulator, mail, orjson.dumps({"items": [item]}), now_s)]


def _people(mail: SimulatedMail, name: str) -> list[dict[str, str | None]]:
    return [{"Name": person or None, "Address": address} for person, address in mail.people(name)]


HOOK = SimulatedHook(
    modes=("parsed",),
    write=write,
    settings=lambda simulator: {
        "api_key": simulator.keys.text("api"),
        "options": {"recipients_from_headers": True},
    },
)
