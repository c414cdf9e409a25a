"""An inbox takes mail while it lives and has room."""

from typing import Any

import pytest

from mailonce.core.inboxes import inbox
from mailonce.core.inboxes.inbox import Inbox, RecipientRefusal, refusal_for, spellings_of
from mailonce.core.mail.address import MailAddress

NOW_MS = 1_000_000


def make_inbox(**changes: Any) -> Inbox:
    fields: dict[str, Any] = {
        "id": "inb_1", "workspace": "default", "address": "ann@example.com", "created_ms": 0,
        "expires_ms": NOW_MS + 1, "mails_max": 10, "bytes_max": 1000,
    }  # fmt: skip
    return Inbox(**fields | changes)


@pytest.mark.parametrize(
    ("changes", "size_bytes", "refusal"),
    [
        ({}, None, None),
        ({}, 1000, None),
        ({"expires_ms": None}, None, None),
        ({"expires_ms": NOW_MS}, None, inbox.EXPIRED),
        ({}, 1001, inbox.TOO_LARGE_FOR_IT),
        ({"bytes": 1}, 1000, inbox.FULL_OF_MAILS),
        ({"mails": 10}, None, inbox.FULL_OF_MAILS),
        ({"mails": 9}, None, None),
    ],
)
def test_an_inbox_refuses_what_it_cannot_hold(
    changes: dict[str, Any], size_bytes: int | None, refusal: RecipientRefusal | None
) -> None:
    assert refusal_for(make_inbox(**changes), size_bytes=size_bytes, now_ms=NOW_MS) == refusal


def test_the_most_exact_spelling_comes_first() -> None:
    assert spellings_of(MailAddress("ann+a", "x.org")) == ("ann+a@x.org", "ann@x.org", "@x.org")
    assert spellings_of(MailAddress("ann", "x.org")) == ("ann@x.org", "@x.org")
