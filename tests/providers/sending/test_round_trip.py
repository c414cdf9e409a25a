"""Each provider against its fake, over real sockets: what was sent, what is known, what comes back.

The fake has the mail or it has not; whatever we were told, the outcome must not say otherwise.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import pytest

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import NeedKey, Verified
from mailonce.core.events.event import Event, EventType
from mailonce.core.events.key import WHOLE, Identity
from mailonce.core.sends.outgoing_mail import OutgoingAttachment
from mailonce.core.sends.sender import Sender
from mailonce.core.sends.sending import (
    Accepted,
    Fault,
    Found,
    LookupOutcome,
    NotFound,
    NotSent,
    SendOutcome,
    TryAgain,
    Unknown,
)
from mailonce.manage.records import source_of
from mailonce.net.http import GuardedClient
from mailonce.net.transmit import Transmitter
from mailonce.pipeline.verify import verify_now, verify_with
from mailonce.providers import find
from mailonce.providers.sending import correlation_of
from mailonce.settings import SourceSettings
from mailonce.testing import Post
from mailonce.testing.fakes import Fake, FakeAct, FakeStep, make_fake, names
from tests.core.sends.mails import CORRELATION, NOON_MS, UUID, plain_mail
from tests.providers.sending.golden import FACTS, MAILS, sending_of

NATIVE = [name for name in names() if sending_of(name).native is not None]
LOOKUPS = [name for name in names() if sending_of(name).lookup is not None]
# SendGrid's lookup is an option.
OPTIONS = {"sendgrid": {"lookup": "activity"}}


@pytest.fixture(scope="module")
def transmitter() -> Transmitter:
    """One for all: it keeps no connection, and to load the authorities takes a while."""
    return Transmitter(GuardedClient(allow_hosts=["127.0.0.1"]), now_ms=lambda: NOON_MS)


def sender_for(fake: Fake, **changes: Any) -> Sender:
    """Make a sender from what a fake's user would write into the settings."""
    settings = {**fake.sender_settings(), **changes}
    settings["secrets"] = (settings.pop("secret", ""),)
    settings["options"] = {**settings.get("options", {}), **OPTIONS.get(fake.name, {})}
    known = {field.name for field in fields(Sender)}
    assert set(settings) <= known
    return Sender(id="snr_1", workspace="default", name="out", **settings)


async def send(
    transmitter: Transmitter, fake: Fake, kind: str = "plain", **changes: Any
) -> SendOutcome:
    sender, sending = sender_for(fake, **changes), sending_of(fake.name)
    request = sending.build(MAILS[kind], CORRELATION, sender)
    return await transmitter.transmit(request, sender, sending)


async def look_up(transmitter: Transmitter, fake: Fake) -> LookupOutcome | None:
    sender, sending = sender_for(fake), sending_of(fake.name)
    return await transmitter.look_up(CORRELATION, sender, sending, FACTS)


def events_of(fake: Fake, post: Post) -> Sequence[Event]:
    """Verify and parse a webhook as the receiving side does."""
    provider = find(fake.name)
    assert provider is not None
    source = source_of("in", SourceSettings(**fake.simulator.settings()))
    headers = {name.lower(): value for name, value in post.headers.items()}
    arrival = Arrival(method=post.method, headers=headers, body=post.body, now_ms=NOON_MS)
    verdict = verify_now(provider, source, arrival)
    if isinstance(verdict, NeedKey):
        keys = {verdict.url: fake.simulator.certificates[verdict.url]}
        verdict = verify_with(provider, source, arrival, keys)
    assert isinstance(verdict, Verified), verdict
    return provider.parse(arrival, source).events


@pytest.mark.parametrize("name", names())
async def test_a_mail_is_accepted_once_and_its_id_comes_back(
    name: str, transmitter: Transmitter, subtests: pytest.Subtests
) -> None:
    for kind in MAILS:
        with subtests.test(kind):
            async with make_fake(name) as fake:
                outcome = await send(transmitter, fake, kind)

                assert isinstance(outcome, Accepted)
                (message,) = fake.messages
                assert message.mail.recipient == "ann@example.net"
                assert message.mail.subject == MAILS[kind].subject
                (post,) = fake.webhooks(now_s=NOON_MS // 1000)
                (event,) = events_of(fake, post)
                assert sending_of(name).correlation_of(event) == UUID
                assert event.message_id == outcome.message_id
                assert event.recipient == "ann@example.net"


HEADERS = [{"name": "To", "value": "x"}, {"name": "X-Mailonce-Id", "value": UUID}]
EVENTS: dict[str, tuple[str, dict[str, Any], str | None]] = {
    "SES with a tag": ("ses", {"metadata": {"mailonce_id": UUID}}, UUID),
    "SES with headers": ("ses", {"raw": {"mail": {"headers": HEADERS}}}, UUID),
    "SES with neither": ("ses", {"raw": {"mail": {"headers": None}}}, None),
    "EventBridge": ("eventbridge", {"raw": {"detail": {"mail": {"headers": HEADERS}}}}, UUID),
    "one that cannot send": ("elasticemail", {"metadata": {"mailonce_id": UUID}}, UUID),
    "one that nobody knows": ("pigeon", {"tags": (f"mailonce-{UUID}",)}, UUID),
    "Postal with a tag of the user's": (
        "postal",
        {"raw": {"payload": {"message": {"tag": "eu", "message_id": f"{UUID}@example.com"}}}},
        UUID,
    ),
    "a bounce of Postal's": (
        "postal",
        {"raw": {"payload": {"original_message": {"message_id": f"{UUID}@example.com"}}}},
        UUID,
    ),
    "Mailjet with an id of the user's": ("mailjet", {"metadata": {"CustomID": "77"}}, None),
    "nonsense": ("ses", {"raw": [7]}, None),
}


@pytest.mark.parametrize("name", EVENTS)
def test_our_id_is_found_whoever_reports_the_event(name: str) -> None:
    provider, fields_, uuid = EVENTS[name]
    event = Event(type=EventType.SENT, identity=Identity(WHOLE, {}), **fields_)

    assert correlation_of(provider)(event) == uuid


# What the caller hears, and what the fake has then.
TRUTH: dict[FakeAct, tuple[tuple[type[SendOutcome], ...], int]] = {
    FakeAct.ACCEPT: ((Accepted,), 1),
    FakeAct.ACCEPT_AND_WAIT: ((Accepted,), 1),
    # One recipient is called for at a time: of two, nobody knows which is meant.
    FakeAct.ACCEPT_IN_PART: ((Accepted, Unknown), 1),
    FakeAct.ACCEPT_AND_HANG: ((Unknown,), 1),
    FakeAct.ACCEPT_AND_BREAK: ((Unknown,), 1),
    # Some say all in their status or a header, so that a lost body changes nothing.
    FakeAct.ACCEPT_AND_CUT: ((Unknown, Accepted), 1),
    FakeAct.ACCEPT_AND_FAIL: ((Unknown,), 1),
    FakeAct.HANG: ((Unknown,), 0),
    FakeAct.BREAK: ((Unknown,), 0),
    FakeAct.FAIL: ((Unknown,), 0),
    FakeAct.BUSY: ((TryAgain,), 0),
    FakeAct.REFUSE: ((NotSent,), 0),
    FakeAct.REFUSE_IN_SUCCESS: ((NotSent,), 0),
}


def test_every_act_has_its_truth() -> None:
    assert set(TRUTH) == set(FakeAct)


@pytest.mark.parametrize("name", names())
async def test_an_outcome_never_contradicts_what_the_provider_has(
    name: str, transmitter: Transmitter, subtests: pytest.Subtests
) -> None:
    async def run(act: FakeAct) -> tuple[SendOutcome, Fake]:
        async with make_fake(name) as fake:
            fake.script(act)
            # Only what never answers is given up soon.
            timeout_s = 0.1 if act in {FakeAct.HANG, FakeAct.ACCEPT_AND_HANG} else 60.0
            sent = asyncio.create_task(send(transmitter, fake, timeout_s=timeout_s))
            while act is FakeAct.ACCEPT_AND_WAIT and not fake.messages:
                await asyncio.sleep(0.01)
            assert act is not FakeAct.ACCEPT_AND_WAIT or not sent.done()
            fake.release()
            return await sent, fake

    runs = await asyncio.gather(*map(run, TRUTH))

    for (act, (outcomes, many)), (outcome, fake) in zip(TRUTH.items(), runs, strict=True):
        with subtests.test(str(act)):
            assert isinstance(outcome, outcomes)
            assert len(fake.messages) == many
            assert len(fake.sends) == 1, "nothing is sent twice by itself"
            if isinstance(outcome, TryAgain):
                assert outcome.retry_after_ms == 1000


@pytest.mark.parametrize("name", names())
async def test_wrong_credentials_blame_the_sender(name: str, transmitter: Transmitter) -> None:
    async with make_fake(name) as fake:
        wrong = {"username": "AKIDWRONG"} if name == "ses" else {}
        if name == "mailjet":
            wrong = {"password": "wrong"}
        changes: dict[str, Any] = wrong or {"secret": "wrong"}

        outcome = await send(transmitter, fake, **changes)

        assert isinstance(outcome, NotSent)
        assert outcome.fault is Fault.SENDER
        assert fake.messages == []


@pytest.mark.parametrize("name", NATIVE)
async def test_a_repeat_under_the_providers_own_key_sends_no_second_mail(
    name: str, transmitter: Transmitter
) -> None:
    async with make_fake(name) as fake:
        fake.script(FakeAct.ACCEPT_AND_BREAK)

        first = await send(transmitter, fake)
        second = await send(transmitter, fake)

        assert isinstance(first, Unknown)
        # Brevo says only that it has seen the key.
        assert isinstance(second, Unknown if name == "brevo" else Accepted)
        assert (len(fake.sends), len(fake.messages)) == (2, 1)

        fake.expire_keys()
        await send(transmitter, fake)
        assert len(fake.messages) == 2, "after its window the key protects nobody"


async def test_a_fake_with_a_window_forgets_keys_by_itself(transmitter: Transmitter) -> None:
    async with make_fake("resend") as fake:
        fake.key_window_s = 3_600.0
        await send(transmitter, fake)
        await send(transmitter, fake)
        assert len(fake.messages) == 1

        fake.key_window_s = 0.0
        await send(transmitter, fake)

        assert len(fake.messages) == 2


async def test_copies_of_a_fakes_webhook_are_one_event(transmitter: Transmitter) -> None:
    async with make_fake("postmark") as fake:
        await send(transmitter, fake)

        posts = fake.webhooks(now_s=NOON_MS // 1000, copies=3)

        assert len(posts) == 3
        first, *others = [event for post in posts for event in events_of(fake, post)]
        assert [one.identity for one in others] == [first.identity] * 2


@pytest.mark.parametrize("name", ["emailit", "resend"])
async def test_a_repeat_while_the_first_call_is_running_is_told_to_wait(
    name: str, transmitter: Transmitter
) -> None:
    async with make_fake(name) as fake:
        # It ends with the fake.
        fake.script(FakeStep(FakeAct.ACCEPT, delay_s=600))

        first = await send(transmitter, fake, timeout_s=0.1)
        second = await send(transmitter, fake)

        assert isinstance(first, Unknown)
        assert isinstance(second, Unknown)
        assert second.retry_after_ms is not None


async def test_other_bytes_under_a_key_of_resend_are_no_proof_of_anything(
    transmitter: Transmitter,
) -> None:
    async with make_fake("resend") as fake:
        await send(transmitter, fake, "plain")

        outcome = await send(transmitter, fake, "full")

        assert isinstance(outcome, Unknown)
        assert outcome.retry_after_ms is None
        assert len(fake.messages) == 1


@pytest.mark.parametrize("name", LOOKUPS)
async def test_a_lookup_finds_what_an_answer_did_not_tell(
    name: str, transmitter: Transmitter
) -> None:
    async with make_fake(name) as fake:
        assert await look_up(transmitter, fake) == NotFound()
        fake.lists_late = True
        fake.script(FakeAct.ACCEPT_AND_BREAK)
        assert isinstance(await send(transmitter, fake), Unknown)
        assert await look_up(transmitter, fake) == NotFound(), "an index lags"
        fake.list_all()

        outcome = await look_up(transmitter, fake)

        assert isinstance(outcome, Found)
        (event,) = events_of(fake, fake.webhooks(now_s=NOON_MS // 1000)[0])
        assert outcome.message_id == event.message_id


@pytest.mark.parametrize("name", LOOKUPS)
async def test_a_lookup_does_not_take_another_mail_for_ours(
    name: str, transmitter: Transmitter
) -> None:
    other = "0b9e5c14-6a1e-5d0c-9a55-7d9b8f5f7a11"
    async with make_fake(name) as fake:
        sender, sending = sender_for(fake), sending_of(name)
        correlation = type(CORRELATION)("snd_" + "0" * 32, 1, other)
        mail = plain_mail(message_id=f"<{other}@example.com>")
        request = sending.build(mail, correlation, sender)
        assert isinstance(await transmitter.transmit(request, sender, sending), Accepted)

        assert await look_up(transmitter, fake) == NotFound()


async def test_without_a_lookup_nobody_is_asked(transmitter: Transmitter) -> None:
    for name in sorted(set(names()) - set(LOOKUPS)):
        async with make_fake(name) as fake:
            assert await look_up(transmitter, fake) is None
            assert fake.calls == []


async def test_nobody_listens_so_nothing_was_sent(transmitter: Transmitter) -> None:
    async with make_fake("resend") as fake:
        sender, sending = sender_for(fake), sending_of("resend")
        request = sending.build(MAILS["plain"], CORRELATION, sender)

    assert isinstance(await transmitter.transmit(request, sender, sending), TryAgain)


async def test_the_guard_keeps_senders_from_the_inside(subtests: pytest.Subtests) -> None:
    async with GuardedClient() as client, make_fake("resend") as fake:
        transmitter = Transmitter(client, now_ms=lambda: NOON_MS)
        sending = sending_of("resend")
        for endpoint in (fake.url, "http://169.254.169.254", "http://[::1]:80", "http://localhost"):
            with subtests.test(endpoint):
                sender = sender_for(fake, endpoint=endpoint)
                request = sending.build(MAILS["plain"], CORRELATION, sender)

                outcome = await transmitter.transmit(request, sender, sending)

                assert isinstance(outcome, NotSent)
                assert outcome.fault is Fault.SENDER
                assert fake.calls == []


async def test_a_success_before_the_whole_mail_was_there_is_not_believed(
    transmitter: Transmitter,
) -> None:
    async def too_early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{"id": "1"}')
        with contextlib.suppress(OSError):
            await writer.drain()
            await asyncio.Event().wait()

    server = await asyncio.start_server(too_early, "127.0.0.1", 0)
    endpoint = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with make_fake("resend") as fake:
        sender, sending = sender_for(fake, endpoint=endpoint), sending_of("resend")
        file = OutgoingAttachment(name="a", type="a/b", content=bytes(20 << 20))
        request = sending.build(plain_mail(attachments=(file,)), CORRELATION, sender)

        outcome = await transmitter.transmit(request, sender, sending)

        assert isinstance(outcome, Unknown)
        assert "before it had the whole request" in outcome.reason
    server.close()
