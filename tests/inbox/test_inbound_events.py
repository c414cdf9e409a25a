"""`inbound` events that hooks bring: each with its own element, and its message where known."""

from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio
from sqlalchemy import Connection, Select

from mailonce.core.access import Caller, Scope
from mailonce.core.arrivals.source import SMTP
from mailonce.core.events.facts import Kind
from mailonce.core.mail.incoming import IncomingMail, MailEnvelope, MimeContent
from mailonce.core.query import EventFilter
from mailonce.errors import MissingError
from mailonce.manage.settings_file import apply_settings
from mailonce.pipeline.drive_flows import drive
from mailonce.pipeline.receive import receive
from mailonce.settings import Settings, SourceSettings
from mailonce.store.inboxes.purge import InboxPlace
from mailonce.store.ledger import arrival_outcomes, copies
from mailonce.store.schema.tables import ARRIVALS, FACTS, SUPPRESSIONS
from mailonce.testing import (
    EventType,
    Happening,
    Simulator,
    mail_post,
    mail_settings,
    make_simulator,
)
from mailonce.views.arrivals import show_arrival
from mailonce.views.events import EventJson, list_events, show_event
from mailonce.views.inbox_messages import show_message as show_inbox_message
from mailonce.views.messages import show_message
from mailonce.views.paging import PageQuery
from mailonce.wiring import add_worker, build_service
from tests.endpoint import Endpoint
from tests.inbox.conftest import Desk
from tests.inbox.conftest import make_mail as make_smtp_mail
from tests.providers.inbound.hooks import SENDER, arrival_of, make_mail

BOUNCE = b"""\
From: mailer-daemon@out.test\r
To: ann@in.test\r
Message-ID: <dsn-1@out.test>\r
Content-Type: multipart/report; report-type=delivery-status; boundary=b\r
\r
--b\r
Content-Type: message/delivery-status\r
\r
Reporting-MTA: dns; out.test\r
\r
Final-Recipient: rfc822; bob@example.net\r
Action: failed\r
Status: 5.1.1\r
\r
--b\r
Content-Type: text/rfc822-headers\r
\r
Message-ID: <sent-1@in.test>\r
\r
--b--\r
"""
READER = Caller("default", Scope.READER, "key_1")
PEOPLE = ["first@in.test", "ann@in.test", "last@in.test"]


class HookDesk(Desk):
    """A desk with a source that relays mail in batches."""

    async def take(self, name: str, post: Any) -> str:
        """Let a hook hand over mail; give the id of the arrival."""
        now_s = self.service.clock.now_ms() // 1000
        receiving = self.service.receiving
        reply = await drive(receiving, receive(receiving, name, arrival_of(post, now_s=now_s)))
        assert reply.code == 200, reply
        return str(reply.body["arrival"])

    async def events(self, *, whole: bool = True) -> dict[str, EventJson]:
        """Show each inbound event by itself, by recipient."""
        database = self.service.database
        page = await list_events(database, "default", EventFilter(), page=PageQuery(10))
        shown = [
            await show_event(database, "default", one["id"], whole=whole) for one in page["data"]
        ]
        return {str(one["recipient"]): one for one in shown}


@pytest_asyncio.fixture
async def hooks(database_url: str, tmp_path: Path) -> AsyncIterator[HookDesk]:
    endpoint = await Endpoint().start()
    sources = {
        name: SourceSettings(**mail_settings(make_simulator(name, "1")))
        for name in ("sparkpost", "mailgun")
    }
    settings = Settings(data_dir=tmp_path, database=database_url, sources=sources)
    service = await build_service(settings)
    await apply_settings(service.manage, settings)
    add_worker(service, settings)
    await service.start(maintains=False)
    yield HookDesk(service, endpoint)
    await service.stop()
    await endpoint.stop()


def relay(*recipients: str) -> Any:
    simulator = make_simulator("sparkpost", "1")
    return mail_post(simulator, make_mail(), sender=SENDER, recipients=recipients, now_s=0)


def element_of(event: EventJson) -> str:
    return str(event["raw"]["msys"]["relay_message"]["rcpt_to"])


async def test_of_a_batch_that_inboxes_take_in_part_each_event_shows_its_own_element(
    hooks: HookDesk,
) -> None:
    await hooks.post.make("ann@in.test")

    await hooks.take("sparkpost", relay(*PEOPLE))
    await hooks.until_done()

    shown = await hooks.events()
    assert set(shown) == set(PEOPLE)
    assert element_of(shown["first@in.test"]) == "first@in.test"
    assert element_of(shown["last@in.test"]) == "last@in.test"
    ours = shown["ann@in.test"]
    assert ours["message"] is not None
    assert (ours["identity"], ours["message"]["address"]) == (ours["message_id"], "ann@in.test")
    assert ours["message"]["id"] == ours["message_id"]
    assert shown["first@in.test"]["message"] is None


async def test_the_post_of_a_batch_is_erased_with_an_inbox_that_took_a_part_of_it(
    hooks: HookDesk,
) -> None:
    inbox = await hooks.post.make("ann@in.test")
    await hooks.take("sparkpost", relay(*PEOPLE))
    await hooks.until_done()
    assert [row["body"] is None for row in await hooks.rows(ARRIVALS)] == [False]

    report = await hooks.service.mail.purge.delete([InboxPlace("default", inbox.id)], limit_s=60)

    assert report.counts.posts == 1
    assert [row["body"] for row in await hooks.rows(ARRIVALS)] == [None]
    shown = await hooks.events()
    assert [one["raw"] for one in shown.values()] == [None] * 3
    assert shown["ann@in.test"]["message"] is None


async def test_an_event_that_only_tells_of_a_mail_shows_the_message_that_an_inbox_has(
    hooks: HookDesk,
) -> None:
    for person in ("ann@in.test", "bob@in.test"):
        await hooks.post.make(person)
    raw = make_mail()
    message_id = "one@example.org"
    raw = b"Message-ID: <%s>\r\n" % message_id.encode() + raw.replace(b"Message-ID:", b"X-Old:")
    people = ("ann@in.test", "bob@in.test")
    envelope = MailEnvelope(mail_from=SENDER, recipients=people, origin="smtp")
    await hooks.post.send(IncomingMail(envelope=envelope, content=MimeContent(raw)))
    await hooks.until_done()
    simulator: Simulator = make_simulator("mailgun", "1")
    now_s = hooks.service.clock.now_ms() // 1000
    happened = [
        Happening(f"e{number}", EventType.DELIVERED, message_id, person, now_s)
        for number, person in enumerate([*people, "none@in.test"])
    ]

    for one in happened:
        # Mailgun signs a token, and says `stored` of a mail that came in.
        post = simulator.post([one], now_s=now_s)
        body = post.body.replace(b'"delivered"', b'"stored"')
        await hooks.take("mailgun", replace(post, body=body))

    database = hooks.service.database
    page = await list_events(database, "default", EventFilter(), page=PageQuery(10))
    told = [one["id"] for one in page["data"] if one["provider"] == "mailgun"]
    events = [await show_event(database, "default", one) for one in told]
    found = {one["recipient"]: (one["message"] or {}).get("address") for one in events}
    assert found == {
        "ann@in.test": "ann@in.test",
        "bob@in.test": "bob@in.test",
        "none@in.test": None,
    }


async def test_a_reader_sees_a_cleaned_message_and_no_element(hooks: HookDesk) -> None:
    await hooks.post.make("ann@in.test")
    await hooks.take("sparkpost", relay(*PEOPLE))
    await hooks.until_done()

    shown = await hooks.events(whole=False)

    assert [one["raw"] for one in shown.values()] == [None] * 3
    message = shown["ann@in.test"]["message"]
    assert message is not None
    assert (message["view"], "html" in message, "headers" in message) == ("reader", False, False)


async def test_an_event_of_mail_that_came_again_has_the_copies_that_its_inbox_tells(
    hooks: HookDesk,
) -> None:
    inbox = await hooks.post.make("ann@in.test")
    for _ in range(3):
        await hooks.take("sparkpost", relay("ann@in.test"))
    await hooks.until_done()
    # A relay changed the third: other bytes, the same message.
    lines = (b"", b"", b"Received: by relay.test\r\n")
    for line in lines:
        await hooks.post.send(make_smtp_mail(line + BOUNCE, "ann@in.test"))
        await hooks.until_done()
    database = hooks.service.database

    page = await hooks.readers.read(inbox.id, workspace="default", after=0, limit=10)
    listed = (await list_events(database, "default", EventFilter(), page=PageQuery(10)))["data"]
    alone = [await show_event(database, "default", one["id"]) for one in listed]
    timelines: list[Any] = [
        entry
        for message in (*(one.id for one in page.messages), "sent-1@in.test")
        for recipient in (await show_message(database, "default", message))["recipients"]
        for entry in recipient["timeline"]
    ]
    single = [
        orjson.loads(await show_inbox_message(database, READER, inbox.id, one.id))
        for one in page.messages
    ]

    assert list(page.copies.values()) == [2, 2]
    assert sorted(one["type"] for one in listed) == ["bounced", "inbound", "inbound"]
    everywhere: list[Any] = [*listed, *alone, *timelines, *single]
    assert [one["copies"] for one in everywhere] == [2] * len(everywhere)
    assert len(everywhere) == 11
    assert {tuple(one["recognised_by"]) for one in alone} == {("key",)}


async def test_an_arrival_tells_which_mail_it_brought_and_whose_copy_it_was(
    hooks: HookDesk,
) -> None:
    inbox = await hooks.post.make("ann@in.test")
    post = relay("ann@in.test", "nobody@in.test")
    first = await hooks.take("sparkpost", post)
    await hooks.until_done()
    second = await hooks.take("sparkpost", post)
    database = hooks.service.database
    page = await hooks.readers.read(inbox.id, workspace="default", after=0, limit=10)

    taken = await show_arrival(database, "default", first)
    copy = await show_arrival(database, "default", second)

    [message] = page.messages
    ann, nobody = sorted(taken["mails"], key=lambda one: one["inbox"] is None)
    assert (ann["inbox"], ann["message"]) == (inbox.id, message.id)
    assert (nobody["inbox"], nobody["message"]) == (None, None)
    assert len(taken["events"]) == 1
    assert (taken["status"], taken["source_name"]) == ("accepted", "sparkpost")
    assert (copy["status"], copy["events"], copy["mails"]) == ("duplicate", [], [])
    originals = {one["event"] or one["message"] or one["mail"] for one in copy["copies"]}
    assert originals == {taken["events"][0], message.id, nobody["id"]}
    with pytest.raises(MissingError, match="there is no arrival"):
        await show_arrival(database, "ws_other", first)


async def test_copies_and_outcomes_are_found_without_a_walk_through_a_table(
    hooks: HookDesk,
) -> None:
    is_sqlite = hooks.service.database.name == "sqlite"

    def explain(tx: Connection) -> list[str]:
        if not is_sqlite:
            # Of an empty table it would read all there is.
            tx.exec_driver_sql("SET enable_seqscan = off")
        queries = arrival_outcomes.queries("default", bytes(range(16)))
        counted = copies.count_query([bytes(16), bytes(range(16))], first_day=1)
        return [str(tx.exec_driver_sql(written(query)).all()) for query in (counted, *queries)]

    def written(query: Select[*tuple[Any, ...]]) -> str:
        bound = query.compile(compile_kwargs={"render_postcompile": True})
        text = str(bound)
        for name, value in sorted(bound.params.items(), reverse=True):
            literal = f"'{value}'" if isinstance(value, str) else str(value)
            if isinstance(value, bytes):
                literal = f"x'{value.hex()}'" if is_sqlite else f"'\\x{value.hex()}'::bytea"
            text = text.replace(f":{name}", literal)
        return f"EXPLAIN {'QUERY PLAN ' if is_sqlite else ''}{text}"

    for plan in await hooks.service.database.read(explain):
        assert "SCAN " not in plan
        assert "Seq Scan" not in plan


async def test_what_a_strangers_mail_reports_is_not_the_word_of_the_hooks_provider(
    hooks: HookDesk,
) -> None:
    await hooks.post.make("ann@in.test")
    database, simulator = hooks.service.database, make_simulator("mailgun", "1")
    now_s = hooks.service.clock.now_ms() // 1000

    async def provider(name: str) -> None:
        happening = Happening(f"e-{name}", EventType.DELIVERED, name, "bob@example.net", now_s)
        await hooks.take("mailgun", simulator.post([happening], now_s=now_s))

    async def hook(name: str) -> None:
        people = ["ann@in.test"]
        post = mail_post(simulator, report(name), sender=SENDER, recipients=people, now_s=now_s)
        await hooks.take("mailgun", post)

    async def smtp(name: str) -> None:
        await hooks.post.send(make_smtp_mail(report(name), "ann@in.test"))

    def report(name: str) -> bytes:
        return BOUNCE.replace(b"sent-1@in.test", name.encode()).replace(
            b"dsn-1", b"dsn-" + name.encode()
        )

    orders = list(permutations([provider, hook, smtp]))
    for number, order in enumerate(orders):
        for step in order:
            await step(f"sent-{number}@in.test")
            await hooks.until_done()

    facts = [row for row in await hooks.rows(FACTS) if row["recipient"] == "bob@example.net"]
    known = {
        (row["message_id"], row["account"].partition("/")[0], Kind(row["kind"])): row["count"]
        for row in facts
    }
    names = [f"sent-{number}@in.test" for number in range(len(orders))]
    assert known == {
        **{(name, "mailgun", Kind.DELIVERED): 1 for name in names},
        **{(name, "smtp", Kind.HARD): 1 for name in names},
    }
    shown = [await show_message(database, "default", name) for name in names]
    assert [one["recipients"][0]["status"] for one in shown] == ["delivered"] * len(names)
    bounced = EventFilter(type=EventType.BOUNCED)
    page = await list_events(database, "default", bounced, page=PageQuery(10))
    assert [one["source"] for one in page["data"]] == [SMTP] * len(names)
    assert await hooks.rows(SUPPRESSIONS) == []
