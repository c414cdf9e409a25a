"""Postmark posts what it read from a mail, with the mail itself where that is asked for."""

from base64 import b64encode
from typing import Any

import orjson

from mailonce.testing.mail import SimulatedHook, SimulatedMail, signed_post
from mailonce.testing.simulator import Post, Simulator


def write(simulator: Simulator, mail: SimulatedMail, mode: str, now_s: int) -> list[Post]:
    posts = []
    for one in map(mail.for_one, mail.recipients):
        body = _body(one) | (
            {"RawEmail": one.raw.decode("utf-8", "replace")} if mode == "raw" else {}
        )
        posts.append(signed_post(simulator, one, orjson.dumps(body), now_s))
    return posts


def _body(mail: SimulatedMail) -> dict[str, Any]:
    headers = [{"Name": "Return-Path", "Value": f"<{mail.sender}>"}]
    headers += [{"Name": name, "Value": value} for name, value in mail.headers]
    return {
        "FromFull": next(iter(_people(mail, "From")), None),
        "From": mail.header("From"),
        "ToFull": _people(mail, "To"),
        "To": mail.header("To"),
        "CcFull": _people(mail, "Cc"),
        "OriginalRecipient": mail.recipients[0],
        "Subject": mail.header("Subject"),
        "MessageID": mail.id,
        "MessageStream": "inbound",
        "Date": mail.header("Date"),
        "ReplyTo": mail.header("Reply-To"),
        "TextBody": mail.text or "",
        "HtmlBody": mail.html or "",
        "StrippedTextReply": "",
        "Headers": headers,
        "Attachments": [
            {
                "Name": file.name,
                "Content": b64encode(file.content).decode(),
                "ContentType": file.type,
                "ContentLength": len(file.content),
                "ContentID": file.content_id or "",
            }
            for file in mail.files
        ],
    }


def _people(mail: SimulatedMail, name: str) -> list[dict[str, str]]:
    return [{"Email": address, "Name": person} for person, address in mail.people(name)]


HOOK = SimulatedHook(modes=("raw", "parsed"), write=write)
