"""One broken mail of a batch costs that one."""

from typing import Any

from mailonce.core.json_text import Unreadable
from mailonce.core.mail.incoming import IncomingMail, MailEnvelope, MimeContent
from mailonce.core.reading.mail_batch import read_mails
from mailonce.errors import ParseError

ENVELOPE = MailEnvelope(recipients=("in@x",), origin="provider")


def parse_mail(element: dict[str, Any]) -> IncomingMail | None:
    if element.get("broken"):
        raise ParseError("it is broken")
    raw = element.get("raw")
    return raw and IncomingMail(envelope=ENVELOPE, content=MimeContent(raw.encode()))


def test_what_is_broken_is_set_aside_in_its_place() -> None:
    elements: list[dict[str, Any]] = [{"raw": "a"}, {"broken": 1}, {"event": "other"}, {"raw": "b"}]
    # The second element of the array was no object at all.
    before = [Unreadable(1, "no object", b"5")]

    batch = read_mails(elements, before, parse_mail, alone=lambda one: {"items": [one]})

    assert [one.content for one in batch.mails] == [MimeContent(b"a"), MimeContent(b"b")]
    assert batch.elements == (elements[0], elements[2], elements[3])
    assert batch.unreadable == (
        before[0],
        Unreadable(2, "it is broken", b'{"items":[{"broken":1}]}'),
    )
