"""Mailgun posts a form for each recipient, with a token of its own; the mail is not signed."""

import secrets
from urllib.parse import urlencode

import orjson

from mailonce.core.arrivals.mail_fetch import FetchAnswer
from mailonce.testing.mail import MultipartForm, SimulatedHook, SimulatedMail
from mailonce.testing.sign import hmac_hex
from mailonce.testing.simulator import Post, Simulator

STORE = "https://storage-us-east4.api.mailgun.net/v3/domains/example.net/messages/"


def write(simulator: Simulator, mail: SimulatedMail, mode: str, now_s: int) -> list[Post]:
    return [_post(simulator, mail.for_one(one), mode, now_s) for one in mail.recipients]


def _post(simulator: Simulator, mail: SimulatedMail, mode: str, now_s: int) -> Post:
    token = secrets.token_hex(25)
    fields: list[tuple[str, str | bytes]] = [
        ("recipient", mail.recipients[0]),
        ("sender", mail.sender),
        ("subject", mail.header("Subject")),
        ("from", mail.header("From")),
        ("timestamp", str(now_s)),
        ("token", token),
        ("signature", hmac_hex(simulator.secret, f"{now_s}{token}".encode())),
    ]
    if mode == "mime":
        return _urlencoded([*fields, ("body-mime", mail.raw)])
    fields += [
        ("message-headers", orjson.dumps([list(pair) for pair in mail.headers])),
        ("body-plain", mail.text or ""),
        ("stripped-text", mail.text or ""),
    ]
    if mail.html is not None:
        fields.append(("body-html", mail.html))
    if mode == "stored":
        url = STORE + mail.id
        answer = orjson.dumps({"body-mime": mail.raw.decode("utf-8", "replace")})
        simulator.answers[url] = FetchAnswer(status=200, body=answer)
        return _urlencoded([*fields, ("message-url", url), ("attachments", "[]")])
    return _urlencoded(fields) if not mail.files else _with_files(fields, mail)


def _with_files(fields: list[tuple[str, str | bytes]], mail: SimulatedMail) -> Post:
    form = MultipartForm()
    form.add_all(fields)
    content_ids = {}
    for number, file in enumerate(mail.files, start=1):
        form.add(f"attachment-{number}", file.content, file=file.name, type_=file.type)
        if file.content_id is not None:
            content_ids[f"<{file.content_id}>"] = f"attachment-{number}"
    form.add("attachment-count", str(len(mail.files)))
    form.add("content-id-map", orjson.dumps(content_ids))
    return Post({"Content-Type": form.content_type}, form.body)


def _urlencoded(fields: list[tuple[str, str | bytes]]) -> Post:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    return Post(headers, urlencode(fields, safe="@").encode())


HOOK = SimulatedHook(
    modes=("mime", "parsed", "stored"),
    write=write,
    settings=lambda simulator: {"api_key": simulator.keys.text("api")},
)
