"""Mandrill signs its URL and the decoded fields of a form, without a time."""

from collections.abc import Sequence
from typing import Any, ClassVar
from urllib.parse import urlencode

from mailonce.core.events.event import EventType
from mailonce.testing.sign import hmac_base64
from mailonce.testing.simulator import Happening, Post, Simulator, Words, waits_s


class Mandrill(Simulator):
    """Posts an array within a form."""

    name = "mandrill"
    batch_max = 8
    # It tries a batch again until somebody gives up on it; how often, it does not say.
    retry_waits_s = waits_s(minutes=(1, 5, 15, 30), hours=(1, 2, 4, 8, 16))
    words: ClassVar[Words] = {
        EventType.DELIVERED: ("delivered", {}, {}),
        EventType.DEFERRED: ("deferral", {}, {"diag": "421 try again later"}),
        EventType.BOUNCED: ("hard_bounce", {}, {"diag": "smtp;550 5.1.1 no such user"}),
        EventType.COMPLAINED: ("spam", {}, {}),
        EventType.OPENED: ("open", {"ip": "192.0.2.1", "user_agent": "Mozilla/5.0"}, {}),
        EventType.CLICKED: ("click", {"url": "https://example.com/welcome", "ip": "192.0.2.1"}, {}),
    }

    def settings(self) -> dict[str, Any]:
        """Give the key, and the URL as it was entered in Mandrill."""
        return {**super().settings(), "options": {"url": self.to}}

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Tell events in a form's one field."""
        del now_s
        events = self.body(happenings).decode()
        signed = f"{self.to}mandrill_events{events}".encode()
        headers = {
            "Content-Type": "application/x-www-form-urlencoded",
            "X-Mandrill-Signature": hmac_base64(self.secret.encode(), signed, "sha1"),
        }
        # An @ may stand unescaped in a form, and is easier to read there.
        return Post(headers, urlencode({"mandrill_events": events}, safe="@").encode())

    def event(self, one: Happening) -> dict[str, Any]:
        word, action, detail = self.words[one.type]
        message = {"_id": one.message_id, "email": one.recipient, "subject": "Welcome"}
        return {
            "event": word,
            "_id": one.message_id,
            "ts": one.occurred_s,
            "msg": {**message, **detail, **one.details},
            **action,
        }


SIMULATOR = Mandrill
