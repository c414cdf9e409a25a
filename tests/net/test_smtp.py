"""The SMTP client: one mail for each final dot, and an outcome that is never wrong about it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from mailonce.core.sends.sender import Sender, Tls
from mailonce.core.sends.sending import (
    Accepted,
    Fault,
    NotSent,
    SendOutcome,
    SmtpRequest,
    TryAgain,
    Unknown,
)
from mailonce.net import smtp
from mailonce.net.dialer import Dialer
from mailonce.net.smtp import SmtpClient
from mailonce.testing.fakes import FakeSmtpServer, SmtpAct
from tests.net.conftest import HOST, Authority

MESSAGE = b"Subject: Hi\r\nMessage-ID: <1@example.com>\r\n\r\n.\r\n..dots\r\n. and text\r\nend\r\n"
# Longer than a socket holds, so that a server that goes away is noticed before the dot.
LARGE = b"A: b\r\n\r\n" + (b"x" * 76 + b"\r\n") * 100_000
REQUEST = SmtpRequest(mail_from="shop@example.com", rcpt_to="ann@example.net", message=MESSAGE)
PLAIN = Sender(
    id="snr_1", workspace="default", name="out", provider="smtp", host="127.0.0.1", tls=Tls.NONE
)
Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def make_client(authority: Authority | None = None, **changes: Any) -> SmtpClient:
    named: dict[str, Any] = {"allow_hosts": ["127.0.0.1"], "hosts": {}, "resolver": None}
    ca_file = None if authority is None else authority.ca_file
    return SmtpClient(Dialer(**{**named, "ca_file": ca_file, **changes}))


@pytest.fixture
def client() -> SmtpClient:
    return make_client()


def sender_for(server: FakeSmtpServer, **changes: Any) -> Sender:
    settings = {**server.sender_settings(), **changes}
    settings["tls"] = Tls(settings["tls"])
    return Sender(id="snr_1", workspace="default", name="out", **settings)


@contextlib.asynccontextmanager
async def serving(script: Script) -> AsyncIterator[Sender]:
    """Run a server that says exactly what a test wants."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, EOFError):
            await script(reader, writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield replace(PLAIN, port=server.sockets[0].getsockname()[1])
    finally:
        server.close()


async def up_to_data(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Agree to everything until the message is wanted."""
    writer.write(b"220 here\r\n")
    for reply in (b"250 here", b"250 ok", b"250 ok", b"354 go ahead"):
        await reader.readuntil(b"\r\n")
        writer.write(reply + b"\r\n")


async def test_a_mail_arrives_as_it_was_dots_and_all(client: SmtpClient) -> None:
    async with FakeSmtpServer() as server:
        outcome = await client.send(REQUEST, sender_for(server))

        assert outcome == Accepted(message_id=None, evidence="250 2.0.0 Ok: queued as Q1")
        (message,) = server.messages
        assert message.body == MESSAGE
        assert server.commands[0] == "EHLO [127.0.0.1]"
        assert server.commands[1:4] == [
            f"MAIL FROM:<shop@example.com> SIZE={len(MESSAGE)}",
            "RCPT TO:<ann@example.net>",
            "DATA",
        ]


# What the client hears, and what the server has then.
TRUTH: dict[SmtpAct, tuple[SendOutcome | type[SendOutcome], int]] = {
    SmtpAct.ACCEPT: (Accepted, 1),
    SmtpAct.ACCEPT_AND_WAIT: (Accepted, 1),
    SmtpAct.ACCEPT_AND_HANG: (Unknown, 1),
    SmtpAct.ACCEPT_AND_BREAK: (Unknown, 1),
    SmtpAct.ACCEPT_AND_SHUT_DOWN: (Unknown, 1),
    SmtpAct.DEFER: (TryAgain, 0),
    SmtpAct.REFUSE: (NotSent, 0),
    SmtpAct.DEFER_RECIPIENT: (TryAgain, 0),
    SmtpAct.REFUSE_RECIPIENT: (
        NotSent(reason="RCPT was answered 550 5.1.1 no such user", fault=Fault.MESSAGE),
        0,
    ),
    SmtpAct.REFUSE_SENDER: (
        NotSent(reason="MAIL was answered 550 5.7.1 not your address", fault=Fault.SENDER),
        0,
    ),
    SmtpAct.BREAK_BEFORE_BODY: (TryAgain, 0),
    SmtpAct.BREAK: (Unknown, 0),
    SmtpAct.HANG: (Unknown, 0),
}


def test_every_act_has_its_truth() -> None:
    assert set(TRUTH) == set(SmtpAct)


async def test_an_outcome_never_contradicts_what_the_server_has(
    client: SmtpClient, subtests: pytest.Subtests
) -> None:
    for act, (expected, many) in TRUTH.items():
        with subtests.test(str(act)):
            async with FakeSmtpServer() as server:
                server.script(act)
                # Only what never answers is given up soon.
                hangs = {SmtpAct.ACCEPT_AND_HANG, SmtpAct.HANG}
                dot_timeout_s = 0.1 if act in hangs else 600
                sender = sender_for(server, options={"dot_timeout_s": dot_timeout_s})
                body = LARGE if act is SmtpAct.BREAK_BEFORE_BODY else MESSAGE

                request = replace_message(REQUEST, body)
                sent = asyncio.create_task(client.send(request, sender))
                while act is SmtpAct.ACCEPT_AND_WAIT and not server.messages:
                    await asyncio.sleep(0.01)
                server.release()
                outcome = await sent

                if isinstance(expected, type):
                    assert isinstance(outcome, expected)
                else:
                    assert outcome == expected
                assert len(server.messages) == many
                if act in hangs:
                    assert isinstance(outcome, Unknown)
                    words = "127.0.0.1 gave no reply to the final dot within 0.1 s"
                    assert outcome.reason == words
                client.close()


def replace_message(request: SmtpRequest, message: bytes) -> SmtpRequest:
    return SmtpRequest(mail_from=request.mail_from, rcpt_to=request.rcpt_to, message=message)


async def test_a_mail_that_may_not_begin_any_more_gets_no_final_dot(client: SmtpClient) -> None:
    async with FakeSmtpServer() as server:
        sender = sender_for(server)

        outcome = await client.send(REQUEST, sender, may_begin=lambda: False)
        again = await client.send(REQUEST, sender)

        assert isinstance(outcome, TryAgain)
        assert isinstance(again, Accepted)
        assert len(server.messages) == 1
        assert server.connections == 2, "the session was not used for another mail"


async def test_a_session_carries_many_mails_and_survives_a_refusal(client: SmtpClient) -> None:
    async with FakeSmtpServer() as server:
        server.script(SmtpAct.ACCEPT, SmtpAct.REFUSE_RECIPIENT, SmtpAct.ACCEPT)

        outcomes = [await client.send(REQUEST, sender_for(server)) for _ in range(3)]

        kinds = [type(outcome).__name__ for outcome in outcomes]
        assert kinds == ["Accepted", "NotSent", "Accepted"]
        assert server.connections == 1
        assert server.commands.count("RSET") == 1
        assert server.commands.count("EHLO [127.0.0.1]") == 1
        client.close()


async def test_sessions_are_not_shared_between_logins(client: SmtpClient) -> None:
    async with FakeSmtpServer(password="word") as server:
        good = sender_for(server)
        assert isinstance(await client.send(REQUEST, good), Accepted)

        outcome = await client.send(REQUEST, replace(good, password="guess"))

        assert outcome == NotSent(reason="AUTH was answered 535", fault=Fault.SENDER)
        assert len(server.messages) == 1
        client.close()


async def test_a_session_that_died_while_idle_costs_nothing(client: SmtpClient) -> None:
    async with FakeSmtpServer() as server:
        sender = sender_for(server)
        assert isinstance(await client.send(REQUEST, sender), Accepted)
        (sessions,) = client._idle.values()
        # As where a firewall has forgotten the connection: nobody told us.
        transport = sessions[0].connection._transport
        assert transport is not None
        transport.abort()

        outcome = await client.send(REQUEST, sender)

        assert isinstance(outcome, Accepted)
        assert (len(server.messages), server.connections) == (2, 2)
        client.close()


async def test_a_session_that_dies_under_the_next_mail_is_replaced(client: SmtpClient) -> None:
    seen: list[bytes] = []

    async def one_mail_each(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await up_to_data(reader, writer)
        seen.append(await reader.readuntil(b"\r\n.\r\n"))
        writer.write(b"250 taken\r\n")
        await reader.readuntil(b"\r\n")
        # The second mail has begun: the server has gone.

    async with serving(one_mail_each) as sender:
        outcomes = [await client.send(REQUEST, sender) for _ in range(3)]

        assert [type(outcome) for outcome in outcomes] == [Accepted] * 3
        assert len(seen) == 3
        client.close()


async def test_idle_sessions_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    dialer = Dialer(allow_hosts=["127.0.0.1"], hosts={}, ca_file=None, resolver=None)
    client = SmtpClient(dialer, monotonic=lambda: now[0])
    monkeypatch.setattr(smtp, "SESSION_MAILS_MAX", 2)
    async with FakeSmtpServer() as server:
        for _ in range(3):
            assert isinstance(await client.send(REQUEST, sender_for(server)), Accepted)
        assert server.connections == 2, "after two mails a session has done its work"

        now[0] = smtp.IDLE_S
        assert isinstance(await client.send(REQUEST, sender_for(server)), Accepted)

        assert server.connections == 3
        client.close()
        assert not client._idle


@pytest.mark.parametrize("logins", ["PLAIN LOGIN", "LOGIN", "PLAIN"])
async def test_a_login_by_either_way(client: SmtpClient, logins: str) -> None:
    async with FakeSmtpServer(password="wörd") as server:
        server.logins = logins

        outcome = await client.send(REQUEST, sender_for(server))

        assert isinstance(outcome, Accepted)
        assert server.commands.count("AUTH") == 1
        client.close()


async def test_a_login_that_is_not_offered_or_not_given(client: SmtpClient) -> None:
    async with FakeSmtpServer(password="word") as server:
        server.logins = "CRAM-MD5"
        first = await client.send(REQUEST, sender_for(server))
        second = await client.send(REQUEST, sender_for(server, username="", password=""))

        assert isinstance(first, NotSent)
        assert "PLAIN or LOGIN" in first.reason
        assert second == NotSent(
            reason="MAIL was answered 530 5.7.0 log in first", fault=Fault.SENDER
        )
        assert server.messages == []
        client.close()


@pytest.mark.parametrize("is_implicit", [False, True], ids=["starttls", "implicit"])
async def test_mail_goes_encrypted(authority: Authority, *, is_implicit: bool) -> None:
    client = make_client(authority)
    tls = authority.new_context()
    async with FakeSmtpServer(tls=tls, is_implicit=is_implicit, password="word") as server:
        outcomes = [await client.send(REQUEST, sender_for(server)) for _ in range(2)]

        assert [type(outcome) for outcome in outcomes] == [Accepted, Accepted]
        assert server.connections == 1
        assert ("STARTTLS" in server.commands) is not is_implicit
        client.close()


@pytest.mark.parametrize("is_implicit", [False, True], ids=["starttls", "implicit"])
async def test_a_certificate_of_somebody_else_is_not_believed(
    authority: Authority, client: SmtpClient, *, is_implicit: bool
) -> None:
    tls = authority.new_context()
    async with FakeSmtpServer(tls=tls, is_implicit=is_implicit, password="word") as server:
        unknown_authority = await client.send(REQUEST, sender_for(server))
        trusting = make_client(
            authority,
            allow_hosts=["mail.example.com"],
            hosts={"mail.example.com": f"127.0.0.1:{server.port}"},
        )
        other_name = await trusting.send(REQUEST, sender_for(server, host="mail.example.com"))

        assert isinstance(unknown_authority, TryAgain)
        assert isinstance(other_name, TryAgain)
        assert "certificate" in unknown_authority.reason
        assert "certificate" in other_name.reason
        assert "AUTH" not in server.commands
        assert server.messages == []


async def test_the_name_of_the_server_is_what_its_certificate_must_say(
    authority: Authority,
) -> None:
    async with FakeSmtpServer(tls=authority.new_context()) as server:
        client = make_client(authority, hosts={HOST: f"127.0.0.1:{server.port}"})

        assert isinstance(await client.send(REQUEST, sender_for(server, host=HOST)), Accepted)
        client.close()


async def test_starttls_is_never_given_up(client: SmtpClient) -> None:
    async with FakeSmtpServer(password="word") as server:
        outcome = await client.send(REQUEST, sender_for(server, tls="starttls"))

        assert isinstance(outcome, NotSent)
        assert (outcome.fault, "STARTTLS" in outcome.reason) == (Fault.SENDER, True)
        assert outcome.reason.endswith("or none with `options = {plain_login = true}`")
        assert "AUTH" not in server.commands


async def test_what_is_slipped_in_before_encryption_ends_the_session(
    client: SmtpClient,
) -> None:
    """Else it would be read as said by the server whose certificate was checked."""

    async def inject(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 here\r\n")
        await reader.readuntil(b"\r\n")
        writer.write(b"250-here\r\n250 STARTTLS\r\n")
        await reader.readuntil(b"\r\n")
        writer.write(b"220 go ahead\r\n250 AUTH PLAIN\r\n")
        await reader.read()

    async with serving(inject) as sender:
        outcome = await client.send(REQUEST, replace(sender, tls=Tls.STARTTLS))

        assert isinstance(outcome, TryAgain)
        assert "out of turn" in outcome.reason


async def test_addresses_in_other_scripts_need_a_server_that_takes_them(
    client: SmtpClient,
) -> None:
    request = SmtpRequest(
        mail_from="shop@example.com",
        rcpt_to="änne@example.net",
        message="To: änne@example.net\r\n\r\nHi\r\n".encode(),
    )
    async with FakeSmtpServer() as server:
        assert isinstance(await client.send(request, sender_for(server)), Accepted)
        assert any(line.endswith("BODY=8BITMIME SMTPUTF8") for line in server.commands)
        assert server.messages[0].mail.recipient == "änne@example.net"
        client.close()
        server.extensions.remove("SMTPUTF8")

        outcome = await client.send(request, sender_for(server))

        assert isinstance(outcome, NotSent)
        assert "SMTPUTF8" in outcome.reason
        client.close()


@pytest.mark.parametrize(
    "address", ["", "a@b>\r\nRCPT TO:<eve@example.org", "a\r\nb@c", "a>b@c", "x" * 321, "a\x00@b"]
)
async def test_an_address_cannot_bring_a_command_along(client: SmtpClient, address: str) -> None:
    async with FakeSmtpServer() as server:
        for fields in ({"rcpt_to": address}, {"mail_from": address}):
            given = {"mail_from": "a@example.com", "rcpt_to": "b@example.net", **fields}

            outcome = await client.send(SmtpRequest(message=MESSAGE, **given), sender_for(server))

            assert isinstance(outcome, NotSent)
        assert not any(line.startswith("RCPT TO:<eve") for line in server.commands)
        assert server.messages == []
        client.close()


async def test_the_guard_keeps_mail_from_the_inside(subtests: pytest.Subtests) -> None:
    client = make_client(allow_hosts=[])
    async with FakeSmtpServer() as server:
        for host in (
            "127.0.0.1",
            "localhost",
            "[::1]",
            "10.0.0.1",
            "0x7f000001",
            "169.254.169.254",
        ):
            with subtests.test(host):
                outcome = await client.send(REQUEST, sender_for(server, host=host))

                assert isinstance(outcome, NotSent)
                assert outcome.fault is Fault.SENDER
        outcome = await client.send(REQUEST, replace(PLAIN, host="mail.example.com", port=22))
        assert isinstance(outcome, NotSent)
        assert "port 22" in outcome.reason
        assert server.connections == 0


async def test_a_name_that_leads_inside_is_not_followed() -> None:
    class Inside:
        async def resolve(self, host: str) -> tuple[str, ...]:
            del host
            return ("127.0.0.1",)

        def close(self) -> None:
            return

    client = make_client(allow_hosts=[], resolver=Inside())
    async with FakeSmtpServer() as server:
        outcome = await client.send(REQUEST, sender_for(server, host="mail.example.com"))

        assert isinstance(outcome, NotSent)
        assert server.connections == 0


async def test_nobody_listens(client: SmtpClient) -> None:
    async with FakeSmtpServer() as server:
        sender = sender_for(server)

    assert isinstance(await client.send(REQUEST, sender), TryAgain)


GREETINGS = {
    b"554 5.7.1 you are not welcome\r\n": NotSent,
    b"421 4.3.2 not now\r\n": TryAgain,
    b"220": TryAgain,
    b"hello\r\n": TryAgain,
    b"HTTP/1.1 400 Bad Request\r\n\r\n": TryAgain,
    b"\x16\x03\x01\x00\x00\n": TryAgain,
    b"220-a\r\n250 b\r\n": TryAgain,
    b"220 a\r\n220 b\r\n": TryAgain,
    b"": TryAgain,
}


async def test_greetings_that_are_none(client: SmtpClient, subtests: pytest.Subtests) -> None:
    for greeting, kind in GREETINGS.items():
        with subtests.test(repr(greeting)):

            async def greet(
                reader: asyncio.StreamReader,
                writer: asyncio.StreamWriter,
                greeting: bytes = greeting,
            ) -> None:
                del reader
                writer.write(greeting)

            async with serving(greet) as sender:
                assert isinstance(await client.send(REQUEST, sender), kind)


async def test_a_server_that_says_nothing_is_given_up_before_anything_was_sent(
    client: SmtpClient,
) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del writer
        await reader.read()

    async with serving(silent) as sender:
        outcome = await client.send(REQUEST, replace(sender, timeout_s=0.1))

        assert outcome == TryAgain(reason="127.0.0.1 did not answer in 0.1 s")


async def test_an_acceptance_before_the_dot_is_none(client: SmtpClient) -> None:
    """A server that says 250 before it has the mail might say it of anything."""
    bodies: list[bytes] = []

    async def early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 here\r\n")
        for reply in (b"250 here", b"250 ok", b"250 ok", b"354 go ahead\r\n250 taken"):
            await reader.readuntil(b"\r\n")
            writer.write(reply + b"\r\n")
        bodies.append(await reader.read())

    async with serving(early) as sender:
        outcome = await client.send(REQUEST, sender)

        assert isinstance(outcome, TryAgain)
        assert "out of turn" in outcome.reason
    assert not any(b"\r\n.\r\n" in body for body in bodies), "the dot was not sent"


async def test_replies_beyond_all_bounds_end_the_session(client: SmtpClient) -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 here\r\n")
        await reader.readuntil(b"\r\n")
        for _ in range(10_000):
            writer.write(b"250-" + b"x" * 1_000 + b"\r\n")
            await writer.drain()

    async def one_line(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del reader
        while True:
            writer.write(b"2" * 60_000)
            await writer.drain()

    for script in (endless, one_line):
        async with serving(script) as sender:
            outcome = await client.send(REQUEST, sender)

            assert isinstance(outcome, TryAgain)
            assert "too long" in outcome.reason


LAST_WORDS: dict[bytes, type[SendOutcome]] = {
    b"250 taken\r\n": Accepted,
    b"250-taken\r\n250 really\r\n": Accepted,
    b"250 taken\r\n554 no\r\n": Accepted,
    b"250-taken\r\n": Unknown,
    b"250 tak": Unknown,
    b"354 go on\r\n": Unknown,
    b"421 bye\r\n": Unknown,
    b"999 what\r\n": Unknown,
    b"taken\r\n": Unknown,
    b"250-taken\r\n554 no\r\n": Unknown,
    b"\r\n": Unknown,
    b"": Unknown,
    b"452 full\r\n": TryAgain,
    b"552 too large\r\n": NotSent,
}


async def test_only_the_reply_to_the_dot_decides(
    client: SmtpClient, subtests: pytest.Subtests
) -> None:
    for words, kind in LAST_WORDS.items():
        with subtests.test(repr(words)):

            async def answer(
                reader: asyncio.StreamReader, writer: asyncio.StreamWriter, words: bytes = words
            ) -> None:
                await up_to_data(reader, writer)
                await reader.readuntil(b"\r\n.\r\n")
                writer.write(words)

            async with serving(answer) as sender:
                outcome = await client.send(REQUEST, sender)

                assert isinstance(outcome, kind)
                client.close()


async def test_a_mail_that_is_given_up_in_the_middle_leaves_no_session_behind(
    client: SmtpClient,
) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await up_to_data(reader, writer)
        await reader.readuntil(b"\r\n.\r\n")
        begun.set()
        with contextlib.suppress(OSError):
            await reader.read()
        ended.set()

    async with serving(hang) as sender:
        task = asyncio.create_task(client.send(REQUEST, sender))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        await asyncio.wait_for(ended.wait(), 30)
        assert not client._idle


async def test_a_server_that_reads_slowly_gets_the_whole_mail(client: SmtpClient) -> None:
    size = 0

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal size
        await up_to_data(reader, writer)
        tail = b""
        while not tail.endswith(b"\r\n.\r\n"):
            piece = await reader.read(64 << 10)
            size += len(piece)
            tail = (tail + piece)[-5:]
            await asyncio.sleep(0)
        writer.write(b"250 taken\r\n")

    async with serving(slow) as sender:
        outcome = await client.send(replace_message(REQUEST, LARGE), sender)

        assert isinstance(outcome, Accepted)
        assert size == len(LARGE) + 3
        client.close()


@pytest.mark.parametrize(
    "message",
    [
        b"A: b\r\n\r\nend\n.\nMAIL FROM:<eve@example.org>\r\n",
        b"A: b\r\n\r\nend\r.\rMAIL FROM:<eve@example.org>\r\n",
        b"A: b\r\n\r\nend\r\n.\nRCPT TO:<eve@example.org>\r\n",
        b"A: b\n\nc\n",
    ],
)
async def test_a_message_with_other_line_ends_is_not_sent(
    client: SmtpClient, message: bytes
) -> None:
    """Servers disagree on what ends a message: some would read a second mail out of the first."""
    async with FakeSmtpServer() as server:
        outcome = await client.send(replace_message(REQUEST, message), sender_for(server))

        assert isinstance(outcome, NotSent)
        assert "line ends" in outcome.reason
        assert server.messages == []
        client.close()


async def test_a_server_that_stops_reading_is_given_up_before_the_dot(
    client: SmtpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smtp, "SMTP_BODY_S", 0.2)

    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await up_to_data(reader, writer)
        await asyncio.Event().wait()

    async with serving(deaf) as sender:
        outcome = await client.send(replace_message(REQUEST, LARGE), sender)

        assert isinstance(outcome, TryAgain)
        assert not client._idle


def conversation(*replies: bytes) -> Script:
    """Reply to one line after the other; what comes after the last reply is a mail."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for place, reply in enumerate(replies, 1):
            writer.write(reply + b"\r\n")
            line = await reader.readuntil(b"\r\n")
            if line == b"DATA\r\n" and place == len(replies):
                writer.write(b"354 go ahead\r\n")
                await reader.readuntil(b"\r\n.\r\n")
                writer.write(b"250 taken\r\n")
                await reader.read()

    return script


CONVERSATIONS: dict[str, tuple[dict[str, Any], tuple[bytes, ...], type[SendOutcome]]] = {
    "a server of old": ({}, (b"220 x", b"502 what", b"250 x", b"250 ok", b"250 ok"), Accepted),
    "none of old either": ({}, (b"220 x", b"502 what", b"502 what"), NotSent),
    "old and login wanted": ({"username": "a"}, (b"220 x", b"502 what"), NotSent),
    "AUTH written with =": (
        {"username": "a", "password": "b"},
        (b"220 x", b"250-x\r\n250 AUTH=LOGIN PLAIN", b"235 ok", b"250 ok", b"250 ok"),
        Accepted,
    ),
    "login not now": (
        {"username": "a", "password": "b"},
        (b"220 x", b"250-x\r\n250 AUTH PLAIN", b"454 not now"),
        TryAgain,
    ),
    "encryption not now": (
        {"tls": Tls.STARTTLS},
        (b"220 x", b"250-x\r\n250 STARTTLS", b"454 not now"),
        TryAgain,
    ),
    "forwarded": ({}, (b"220 x", b"250 x", b"250 ok", b"251 will forward"), Accepted),
    "a recipient without a yes": ({}, (b"220 x", b"250 x", b"250 ok", b"354 go"), TryAgain),
    "DATA without a go": ({}, (b"220 x", b"250 x", b"250 ok", b"250 ok", b"250 ok"), TryAgain),
    "DATA refused": ({}, (b"220 x", b"250 x", b"250 ok", b"250 ok", b"554 no"), NotSent),
    "too large": ({}, (b"220 x", b"250-x\r\n250 SIZE 10", b"552 too large"), NotSent),
}


async def test_conversations_that_take_another_turn(
    client: SmtpClient, subtests: pytest.Subtests
) -> None:
    for name, (settings, replies, kind) in CONVERSATIONS.items():
        with subtests.test(name):
            async with serving(conversation(*replies)) as sender:
                outcome = await client.send(REQUEST, replace(sender, **settings))

                assert isinstance(outcome, kind)
                client.close()
