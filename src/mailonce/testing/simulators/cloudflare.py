"""A Cloudflare Email Worker posts mail, signed by the scheme of `examples/cloudflare-worker`."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, ClassVar
from urllib.parse import quote

from mailonce.core.events.event import EventType
from mailonce.testing.sign import hmac_hex
from mailonce.testing.simulator import (
    FORGED_DOMAIN,
    HONEST_DOMAIN,
    Happening,
    Post,
    Simulator,
    Words,
    waits_s,
    with_other_recipients,
)


class Cloudflare(Simulator):
    """Posts one mail at a time; the envelope stands in headers."""

    name = "cloudflare"
    content_type = "message/rfc822"
    signs_time = True
    resigns = True
    # The mail's own sender tries again; most servers do so for days.
    retry_waits_s = waits_s(minutes=(5, 15, 30), hours=(1, 4, 8, 24))
    words: ClassVar[Words] = {EventType.INBOUND: "mail"}

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Post a mail of one happening."""
        (one,) = happenings
        return worker_post(
            self.secret, self.body(happenings), "bob@example.org", one.recipient, now_s=now_s
        )

    def body(self, happenings: Sequence[Happening]) -> bytes:
        """Write a mail with the id of the happening's message."""
        (one,) = happenings
        head = f"From: bob@example.org\r\nTo: {one.recipient}\r\nMessage-ID: {one.message_id}"
        return f"{head}\r\nSubject: Hello\r\n\r\nHello\r\n".encode()

    def event(self, one: Happening) -> dict[str, Any]:
        """Say what the mail is about; no event is ever written."""
        return {"type": self.words[one.type], "recipient": one.recipient}

    def forge(self, post: Post) -> Post:
        """Move the recipient to another domain, in the envelope as well."""
        headers = {
            name: value.replace(HONEST_DOMAIN, FORGED_DOMAIN)
            for name, value in post.headers.items()
        }
        return replace(with_other_recipients(post), headers=headers)


def worker_post(secret: str, mail: bytes, sender: str, recipient: str, *, now_s: int) -> Post:
    """Post a mail as the Worker does."""
    mail_from, rcpt_to = quote(sender, safe="!~*'()"), quote(recipient, safe="!~*'()")
    lines = ("mailonce-mail/1", str(now_s), mail_from, rcpt_to, sha256(mail).hexdigest())
    headers = {
        "Content-Type": "message/rfc822",
        "X-Mailonce-Timestamp": str(now_s),
        "X-Mailonce-Mail-From": mail_from,
        "X-Mailonce-Recipient": rcpt_to,
        "X-Mailonce-Signature": hmac_hex(secret, "\n".join(lines).encode()),
    }
    return Post(headers, mail)


SIMULATOR = Cloudflare
