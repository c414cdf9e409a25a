"""The fingerprint of a send: what must be equal in a copy of the request, and what need not."""

from typing import Any

import pytest
from msgspec.structs import replace

from mailonce.core.sends.fingerprint import (
    differing_fields,
    fingerprint_of,
    parts_of,
    request_fingerprint,
    written_parts,
)
from mailonce.core.sends.outgoing_mail import Mailbox, OutgoingAttachment
from tests.core.sends.send_requests import make_recipient, make_request

TEMPLATED = make_request(
    template="receipt", subject=None, text=None, variables={"total": 12, "lines": [1, 2]}
)
PLAIN = make_request()
FILE = OutgoingAttachment(name="a.pdf", type="application/pdf", content=b"%PDF")


def test_copy_names_and_what_only_decorates_a_mail_may_change() -> None:
    [recipient] = TEMPLATED.recipients
    renamed = replace(recipient, mailbox=Mailbox("Ann@Example.com", "Ann, the first"))
    other = replace(
        TEMPLATED,
        recipients=(renamed,),
        from_=Mailbox("shop@example.com", "The new shop"),
        template_version=7,
        tags=("a",),
        headers=(("X-A", "b"),),
        variables={"lines": [1, 2], "total": 12},
    )

    assert parts_of(other, renamed) == parts_of(TEMPLATED, recipient)


@pytest.mark.parametrize(
    ("base", "changes", "named"),
    [
        (TEMPLATED, {"stream": "news"}, ["stream"]),
        (TEMPLATED, {"template": "other"}, ["template"]),
        (TEMPLATED, {"variables": {"total": 13, "lines": [1, 2]}}, ["variables"]),
        (TEMPLATED, {"recipients": (make_recipient("bob@example.com"),)}, ["to"]),
        (PLAIN, {"subject": "Other"}, ["subject"]),
        (PLAIN, {"text": "Other"}, ["text"]),
        (PLAIN, {"html": "<p>Other"}, ["html"]),
        (PLAIN, {"attachments": (FILE,)}, ["attachments"]),
        (
            PLAIN,
            {"template": "t", "subject": None, "text": None},
            ["attachments", "html", "subject", "template", "text", "variables"],
        ),
    ],
)
def test_other_content_is_named_by_its_fields(
    base: Any, changes: dict[str, Any], named: list[str]
) -> None:
    other = replace(base, **changes)
    kept, now = parts_of(base, base.recipients[0]), parts_of(other, other.recipients[0])

    assert differing_fields(written_parts(kept), written_parts(now)) == named
    assert fingerprint_of(kept) != fingerprint_of(now)


def test_variables_of_a_recipient_replace_those_of_the_request() -> None:
    ann = make_recipient("ann@example.com", total=1)
    request = replace(TEMPLATED, recipients=(ann,), variables={"total": 2, "lines": []})

    assert request.variables_for(ann) == {"total": 1, "lines": []}


def test_a_request_is_the_same_in_whatever_order_its_recipients_stand() -> None:
    ann, bob = make_recipient("ann@example.com"), make_recipient("bob@example.com")
    prints = [fingerprint_of(parts_of(PLAIN, one)) for one in (ann, bob)]

    assert request_fingerprint(prints) == request_fingerprint(prints[::-1])
    assert request_fingerprint(prints) != request_fingerprint(prints[:1])


@pytest.mark.parametrize(
    ("request_", "fingerprint"),
    [
        (PLAIN, "c30f0953bb4f8c32d9ced3b36c18e51f"),
        (TEMPLATED, "e08494cea83eb3fe38c8208372e6b554"),
        (
            make_request(html="<p>é", stream="news", attachments=(FILE,)),
            "83cf3a5ea67adb2dd5798edc61540afa",
        ),
    ],
)
def test_a_fingerprint_is_the_same_in_every_release(request_: Any, fingerprint: str) -> None:
    parts = parts_of(request_, request_.recipients[0])

    assert fingerprint_of(parts).hex() == fingerprint
