"""Mailjet posts what it read from a mail, for each recipient; nothing is signed."""

from base64 import b64encode
from typing import Any

import orjson

from mailonce.testing.mail import SimulatedHook, SimulatedMail, signed_post
from mailonce.testing.simulator import Post, Simulator


def write(simulator: Simulator, mail: SimulatedMail, mode: str, now_s: int) -> list[Post]:
    del mode
    people = map(mail.for_one, mail.recipients)
    return [signed_post(simulator, one, orjson.dumps(_body(one)), now_s) for one in people]


def _body(mail: SimulatedMail) -> dict[str, Any]:
    headers: dict[str, Any] = {}
    for name, value in mail.headers:
        headers.setdefault(name, []).append(value)
    body: dict[str, Any] = {
        "Sender": mail.sender,
        "Recipient": mail.recipients[0],
        "Date": "20260101T000000",
        "From": mail.header("From"),
        "Subject": mail.header("Subject"),
        "Headers": {name: some if len(some) > 1 else some[0] for name, some in headers.items()},
        "SpamAssassinScore": "0.1",
    }
    parts: list[dict[str, Any]] = []
    for place, type_, text in (
        ("Text-part", "text/plain", mail.text),
        ("Html-part", "text/html", mail.html),
    ):
        if text is not None:
            parts.append({"Headers": {"Content-Type": type_}, "ContentRef": place})
            body[place] = text
    for number, file in enumerate(mail.files, start=1):
        place = f"{'Inline' if file.is_inline else ''}Attachment{number}"
        kind = "inline" if file.is_inline else "attachment"
        part = {
            "Content-Type": f'{file.type}; name="{file.name}"',
            "Content-Disposition": f'{kind}; filename="{file.name}"',
        }
        part |= {"Content-ID": f"<{file.content_id}>"} if file.content_id else {}
        parts.append({"Headers": part, "ContentRef": place})
        body[place] = b64encode(file.content).decode()
    return {**body, "Parts": parts}


HOOK = SimulatedHook(modes=("parsed",), write=write)
