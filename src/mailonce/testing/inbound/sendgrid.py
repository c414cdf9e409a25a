"""SendGrid posts a form in parts: the mail itself, or what it read from it."""

import orjson

from mailonce.testing.mail import MultipartForm, SimulatedHook, SimulatedMail
from mailonce.testing.simulator import Draft, Post, Simulator


def write(simulator: Simulator, mail: SimulatedMail, mode: str, now_s: int) -> list[Post]:
    form = MultipartForm()
    envelope = orjson.dumps({"to": list(mail.recipients), "from": mail.sender})
    form.add_all(
        [
            ("envelope", envelope),
            ("SPF", "pass"),
            ("dkim", "{@example.org : pass}"),
            ("spam_score", "0.1"),
            ("sender_ip", "192.0.2.1"),
        ]
    )
    if mode == "raw":
        form.add("email", mail.raw)
    else:
        _add_fields(form, mail)
    proof = simulator.proof(Draft([mail.happening], form.body, now_s))
    return [Post({"Content-Type": form.content_type, **proof}, form.body)]


def _add_fields(form: MultipartForm, mail: SimulatedMail) -> None:
    # Every text in a charset of its own, as SendGrid leaves them; where it does not fit, in UTF-8.
    charsets = {"to": "UTF-8", "from": "UTF-8", "subject": "UTF-8", "cc": "UTF-8"}
    head = mail.raw.partition(b"\r\n\r\n")[0] + b"\r\n"
    form.add("headers", head.replace(b"\r\n", b"\n"))
    for name in ("from", "to", "cc", "subject"):
        form.add(name, mail.header(name))
    for name, text in (("text", mail.text), ("html", mail.html)):
        if text is not None:
            charsets[name] = "iso-8859-1" if _fits(text) else "UTF-8"
            form.add(name, text.encode(charsets[name]))
    info = {}
    for number, file in enumerate(mail.files, start=1):
        name = f"attachment{number}"
        info[name] = {"filename": file.name, "name": file.name, "type": file.type}
        if file.content_id is not None:
            info[name]["content-id"] = file.content_id
        form.add(name, file.content, file=file.name, type_=file.type)
    form.add("attachments", str(len(mail.files)))
    form.add("attachment-info", orjson.dumps(info))
    form.add("charsets", orjson.dumps(charsets))


def _fits(text: str) -> bool:
    try:
        text.encode("iso-8859-1")
    except UnicodeError:
        return False
    return True


HOOK = SimulatedHook(modes=("raw", "parsed"), write=write)
