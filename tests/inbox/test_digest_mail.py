"""Mail that was accepted is read by the worker: one message, one event, one delivery."""

import asyncio
from typing import Any

import orjson
import pytest

from mailonce.core.access import Caller, Scope
from mailonce.core.deliveries.delivery import key_of
from mailonce.core.deliveries.rerun import RerunFilter, RerunKind
from mailonce.core.ids import public
from mailonce.core.mail.digest import digest
from mailonce.core.mail.incoming import (
    AddressField,
    FetchContent,
    FieldsContent,
    IncomingMail,
    MailEnvelope,
    MimeContent,
)
from mailonce.core.query import DeadLetterFilter
from mailonce.core.signatures.file_link import FileLinks
from mailonce.core.work.retry_rule import WorkRule
from mailonce.errors import RefusedError
from mailonce.inbox import digest_mail
from mailonce.inbox.digest_mail import DigestRules
from mailonce.store.inboxes import messages
from mailonce.store.schema.mail_tables import ATTACHMENTS, BLOBS, MAILS, MESSAGES
from mailonce.store.schema.tables import COUNTS, DEAD_LETTERS, DELIVERIES, EVENTS, SUPPRESSIONS
from mailonce.views.dead_letters import list_dead_letters
from mailonce.views.paging import PageQuery
from tests.inbox.conftest import RAW, Desk, make_mail

RULES = DigestRules(FileLinks(["key"], base_url="http://mail.test", lifetime_s=60))
WITH_FILE = b"""From: Shop <shop@example.org>\r
To: ann@in.test\r
Subject: your order\r
Message-ID: <order-1@example.org>\r
Date: Tue, 17 Nov 2026 08:00:00 +0000\r
MIME-Version: 1.0\r
Content-Type: multipart/mixed; boundary=b\r
\r
--b\r
Content-Type: text/plain\r
\r
Thanks!\r
--b\r
Content-Type: application/pdf\r
Content-Disposition: attachment; filename="invoice.pdf"\r
Content-Transfer-Encoding: base64\r
\r
JVBERi0xLjQK\r
--b--\r
"""
BOUNCE = b"""From: MAILER-DAEMON@mx.example.net\r
To: ann@in.test\r
Subject: Undelivered Mail Returned to Sender\r
Message-ID: <dsn-1@mx.example.net>\r
MIME-Version: 1.0\r
Content-Type: multipart/report; report-type=delivery-status; boundary=b\r
\r
--b\r
Content-Type: text/plain\r
\r
It could not be delivered.\r
--b\r
Content-Type: message/delivery-status\r
\r
Reporting-MTA: dns; mx.example.net\r
\r
Final-Recipient: rfc822; bob@example.net\r
Action: failed\r
Status: 5.1.1\r
Diagnostic-Code: smtp; 550 no such user\r
\r
--b\r
Content-Type: text/rfc822-headers\r
\r
Message-ID: <sent-7@in.test>\r
Subject: hello\r
\r
--b--\r
"""


async def test_a_mail_becomes_one_message_one_event_and_one_delivery(desk: Desk) -> None:
    route = await desk.add_route(events=["inbound"])
    inbox = await desk.post.make("ann@in.test")

    accepted = [await desk.post.send(make_mail(WITH_FILE)) for _ in range(3)]
    await desk.until_done()

    [message] = await desk.rows(MESSAGES)
    [event] = await desk.rows(EVENTS)
    [delivery] = await desk.rows(DELIVERIES)
    [mail] = await desk.rows(MAILS)
    [file] = await desk.rows(ATTACHMENTS)
    assert sum(one.new for one in accepted) == 1
    assert (mail["message"], mail["seq"]) == (message["id"], 1)
    assert (event["type"], event["message_id"], event["recipient"]) == (
        "inbound",
        message["id"],
        "ann@in.test",
    )
    assert bytes(delivery["key"]) == key_of(message["id"], route.id)
    assert (message["inbox"], message["seq"], message["sender"], message["subject"]) == (
        inbox.id,
        1,
        "shop@example.org",
        "your order",
    )
    assert (file["name"], file["type"], file["attachment_bytes"]) == (
        "invoice.pdf",
        "application/pdf",
        9,
    )
    [request] = desk.endpoint.requests
    sent = orjson.loads(request.body)
    assert sent["identity"] == sent["message"]["id"] == message["id"]
    assert sent["message"]["attachments"][0]["url"].startswith("http://127.0.0.1:8100/files/msg_")
    assert request.headers["x-idempotency-key"] == key_of(message["id"], route.id).hex()


async def test_one_mail_by_two_ways_is_one_message(desk: Desk) -> None:
    inbox = await desk.post.make("ann@in.test")
    await desk.add_route()

    await desk.post.send(make_mail(WITH_FILE))
    await desk.post.send(make_mail(b"Received: from relay by us\r\nX-Spam: no\r\n" + WITH_FILE))
    await desk.until_done()

    mails = await desk.rows(MAILS)
    assert len(await desk.rows(MESSAGES)) == 1
    assert len({row["message"] for row in mails}) == 1
    assert sorted(row["seq"] for row in mails) == [1, 2]
    assert len(await desk.rows(EVENTS)) == len(await desk.rows(DELIVERIES)) == 1
    assert sum(row["count"] for row in await desk.rows(COUNTS)) == 1
    page = await desk.readers.read(inbox.id, workspace="default", after=0, limit=10)
    assert (len(page.messages), page.next) == (1, 2)
    assert page.copies == {page.messages[0].id: 1}


async def test_each_further_copy_of_a_mail_is_counted_once(desk: Desk) -> None:
    inbox = await desk.post.make("ann@in.test")
    other = await desk.post.make("bob@in.test")

    for _ in range(3):
        await desk.post.send(make_mail(WITH_FILE, "ann@in.test", "bob@in.test"))
    # Whichever is read first is the message, and the others are its copies.
    await desk.until_done()
    await desk.post.send(make_mail(RAW, "ann@in.test"))
    await desk.post.send(make_mail(b"Received: from relay by us\r\n" + WITH_FILE, "ann@in.test"))
    await desk.until_done()

    pages = [
        await desk.readers.read(one.id, workspace="default", after=0, limit=10)
        for one in (inbox, other)
    ]
    assert [page.unread for page in pages] == [0, 0]
    assert [[page.copies.get(one.id, 0) for one in page.messages] for page in pages] == [
        [3, 0],
        [2],
    ]


async def test_one_message_id_with_other_content_is_another_message(desk: Desk) -> None:
    await desk.post.make("ann@in.test")

    await desk.post.send(make_mail(WITH_FILE))
    await desk.post.send(make_mail(WITH_FILE.replace(b"Thanks!", b"Your code is 112233")))
    await desk.until_done()

    messages = await desk.rows(MESSAGES)
    assert len(messages) == 2
    assert {row["message_id"] for row in messages} == {"order-1@example.org"}


async def test_one_mail_to_two_inboxes_is_a_message_in_each(desk: Desk) -> None:
    await desk.post.make("ann@in.test")
    await desk.post.make("bob@in.test")

    await desk.post.send(make_mail(WITH_FILE, "ann@in.test", "bob@in.test"))
    await desk.until_done()

    messages = await desk.rows(MESSAGES)
    assert len({row["id"] for row in messages}) == len({row["inbox"] for row in messages}) == 2
    # The mail and its attachment, each once.
    assert len(await desk.rows(BLOBS)) == 2


async def test_a_mail_that_is_read_twice_is_kept_once(desk: Desk) -> None:
    """As after a crash between the commit and the end of the lease."""
    await desk.add_route()
    await desk.post.make("ann@in.test")
    await desk.post.send(make_mail(WITH_FILE))
    [row] = await desk.rows(MAILS)
    mail = await desk.service.database.read(lambda tx: messages.mail(tx, bytes(row["key"])))
    assert mail is not None
    content = MimeContent(WITH_FILE)
    entry = digest_mail.entry_of(mail, content, RULES)

    await desk.service.recorder.record(entry)
    await desk.until_done()
    await desk.service.recorder.record(digest_mail.entry_of(mail, content, RULES))

    assert len(await desk.rows(MESSAGES)) == 1
    assert len(await desk.rows(EVENTS)) == len(await desk.rows(DELIVERIES)) == 1


async def test_a_waiting_reader_is_answered_when_its_mail_was_read(desk: Desk) -> None:
    inbox = await desk.post.make("ann@in.test")
    waiter = asyncio.create_task(
        desk.readers.read(inbox.id, workspace="default", after=0, limit=10, wait_s=20)
    )
    while not desk.readers.waiting:
        await asyncio.sleep(0)

    await desk.post.send(make_mail(WITH_FILE))
    page = await waiter

    [message] = page.messages
    assert orjson.loads(message.document)["subject"] == "your order"


async def test_fields_of_a_provider_are_read_as_a_message(desk: Desk) -> None:
    await desk.post.make("ann@in.test")
    envelope = MailEnvelope(recipients=("ann@in.test",), origin="provider")
    fields = FieldsContent(
        from_=(AddressField("shop@example.org"),), subject="fields", text="hello", date="now"
    )

    await desk.post.send(IncomingMail(envelope=envelope, content=fields))
    await desk.until_done()

    [message] = await desk.rows(MESSAGES)
    assert (message["sender"], message["subject"]) == ("shop@example.org", "fields")


async def test_a_bounce_joins_the_mail_it_is_about_and_suppresses_nobody(desk: Desk) -> None:
    await desk.post.make("ann@in.test")

    await desk.post.send(make_mail(BOUNCE))
    await desk.until_done()

    events = sorted(await desk.rows(EVENTS), key=lambda row: str(row["type"]))
    assert [(row["type"], row["recipient"]) for row in events] == [
        ("bounced", "bob@example.net"),
        ("inbound", "ann@in.test"),
    ]
    assert (events[0]["message_id"], events[0]["bounce"]) == ("sent-7@in.test", "hard")
    assert await desk.rows(SUPPRESSIONS) == []


async def test_a_mistake_of_ours_shows_the_mail_and_holds_up_nobody(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(content: Any, envelope: Any, **named: Any) -> Any:
        if getattr(content, "raw", b"") == WITH_FILE:
            raise RuntimeError("a mistake")
        return digest(content, envelope, **named)

    monkeypatch.setattr(digest_mail, "digest", broken)
    inbox = await desk.post.make("ann@in.test")

    await desk.post.send(make_mail(WITH_FILE))
    await desk.post.send(make_mail(BOUNCE))
    await desk.until_done()

    page = await desk.readers.read(inbox.id, workspace="default", after=0, limit=10)
    first, second = [orjson.loads(one.document) for one in page.messages]
    assert (first["problems"], first["subject"]) == (["unreadable"], None)
    assert second["subject"] == "Undelivered Mail Returned to Sender"


async def test_what_cannot_be_fetched_is_given_up_and_keeps_nobody_waiting(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = WorkRule(waits_s=(0.01,), deadline_s=60, timeout_s=1, concurrency=4)
    monkeypatch.setattr(digest_mail, "RULE", rule)
    await desk.add_route(events=["other"])
    inbox = await desk.post.make("ann@in.test")
    envelope = MailEnvelope(recipients=("ann@in.test",), origin="provider")
    wanted = FetchContent(what="test.mail", arguments={})

    await desk.post.send(IncomingMail(envelope=envelope, content=wanted))
    await desk.post.send(make_mail(WITH_FILE))
    await desk.until_done()

    page = await desk.readers.read(inbox.id, workspace="default", after=0, limit=10)
    assert [one.seq for one in page.messages] == [2]
    [letter] = await desk.rows(DEAD_LETTERS)
    assert (letter["kind"], letter["reason"], letter["attempts"]) == ("mail", "attempts", 2)
    [request] = desk.endpoint.requests
    told = orjson.loads(request.body)
    assert told["reason"].startswith("the mail could not be read: unavailable: 'test.mail'")
    assert (told["type"], told["recipient"]) == ("other", "ann@in.test")
    assert told["metadata"] == {"inbox": inbox.id, "seq": 1}
    assert told["provider_event_id"] == f"mail_{letter['arrival_key']}"
    shown = await list_dead_letters(
        desk.service.database, "default", DeadLetterFilter(), PageQuery(10)
    )
    assert [(one["kind"], one["raw"]) for one in shown["data"]] == [("mail", None)]
    with pytest.raises(RefusedError, match="have the mail sent again"):
        await desk.service.retry_dead_letter(
            Caller("default", Scope.OPERATOR), shown["data"][0]["id"]
        )


async def test_reprocessing_reads_the_mail_again_under_a_new_key(desk: Desk) -> None:
    route = await desk.add_route(events=["inbound"])
    await desk.post.make("ann@in.test")
    await desk.post.send(make_mail(WITH_FILE))
    await desk.until_done()

    rerun = await desk.service.reruns.make("default", RerunKind.REPROCESSING, RerunFilter())

    async def is_delivered_twice() -> bool:
        return len(desk.endpoint.requests) == 2

    await desk.until(is_delivered_twice)
    [message] = await desk.rows(MESSAGES)
    first, second = desk.endpoint.requests
    revision = public(RerunKind.REPROCESSING.prefix, rerun.id)
    assert second.headers["x-idempotency-key"] == key_of(message["id"], route.id, revision).hex()
    assert first.headers["x-idempotency-key"] != second.headers["x-idempotency-key"]
    assert orjson.loads(first.body)["message"] == orjson.loads(second.body)["message"]


async def test_results_of_a_trusted_server_are_believed_and_those_of_others_are_not(
    desk: Desk,
) -> None:
    await desk.post.make("ann@in.test")
    await desk.post.send(
        make_mail(
            b"Authentication-Results: mx.in.test; dmarc=pass header.from=example.org\r\n"
            + WITH_FILE
        )
    )
    await desk.until_done()
    [row] = await desk.rows(MAILS)
    mail = await desk.service.database.read(lambda tx: messages.mail(tx, bytes(row["key"])))
    assert mail is not None
    assert mail.content is not None
    content = MimeContent(mail.content)

    trusted = digest_mail.read_mail(mail, content, DigestRules(RULES.links, ("mx.in.test",)))
    other = digest_mail.read_mail(mail, content, DigestRules(RULES.links, ("mx.other.test",)))

    assert trusted.shown["authentication"]["dmarc"]["result"] == "pass"
    assert other.shown["authentication"] is None
