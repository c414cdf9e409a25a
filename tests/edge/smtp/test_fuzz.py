"""Whatever bytes come, in whatever pieces: no traceback, no hang, and replies that are replies."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from mailonce.edge.smtp.replies import MAIL_OK
from tests.edge.smtp.rig import Inboxes, Rig, open_door

REPLY = re.compile(rb"(?:[2345]\d\d-[ -~]*\r\n)*[2345]\d\d [ -~]*\r\n")

words = st.sampled_from([
    b"EHLO", b"HELO", b"MAIL", b"MAIL FROM:", b"RCPT", b"RCPT TO:", b"DATA", b"RSET", b"NOOP",
    b"QUIT", b"VRFY", b"HELP", b"AUTH", b"AUTH PLAIN", b"AUTH LOGIN", b"STARTTLS", b"BDAT", b"EXPN",
    b"<a@b.test>", b"<box@in.test>", b"<>", b"<", b">", b"@", b'"', b"\\", b":", b" ", b"  ", b"=",
    b"SIZE=", b"BODY=8BITMIME", b"SMTPUTF8", b"AGEAYg==", b"*", b"me", b".", b"..", b"\xc3\xb6",
    b"\xff", b"\0", b"\t", b"\x1b", b"x" * 600, b"x" * 3000, b"99999999999999999999999",
])  # fmt: skip
ends = st.sampled_from(
    [b"\r\n"] * 8 + [b"\n", b"\r", b"\r\r\n", b"\n\r", b"", b"\r\n.\r\n", b"\n.\n"]
)
lines = st.tuples(st.lists(words, max_size=5), ends).map(lambda one: b"".join(one[0]) + one[1])
good = st.sampled_from([
    b"EHLO me\r\n", b"MAIL FROM:<a@b.test>\r\n", b"RCPT TO:<box@in.test>\r\n", b"DATA\r\n",
    b"Subject: x\r\n\r\nhello\r\n.\r\n", b"RSET\r\n", b"NOOP\r\n",
])  # fmt: skip
pieces = st.lists(
    st.one_of(good, good, lines, st.binary(max_size=40), st.just(b"y" * 9000)), max_size=14
)


@dataclass
class Opened:
    """A door that stays open for all examples of a test."""

    runner: "asyncio.Runner"
    rig: Rig


@pytest.fixture(scope="module")
def opened() -> Iterator[Opened]:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        stack = AsyncExitStack()

        async def start() -> Rig:
            return await stack.enter_async_context(
                open_door(Inboxes(), message_bytes_max=8192, data_line_bytes_max=4000)
            )

        rig = runner.run(start())
        try:
            yield Opened(runner, rig)
        finally:
            runner.run(stack.aclose())


async def say(rig: Rig, pieces: list[bytes]) -> bytes:
    """Send pieces one after the other, as packets of their own, then end; give every reply."""
    talk = await rig.connect(greets=False)
    rig.talks.clear()
    try:
        for piece in pieces:
            talk.send(piece)
            await talk.writer.drain()
            await asyncio.sleep(0)
        talk.writer.write_eof()
    except OSError:
        # It has hung up on us; what it said is still to be read.
        pass
    try:
        return await talk.rest()
    finally:
        talk.writer.transport.abort()


async def _settled(rig: Rig) -> None:
    async with asyncio.timeout(30):
        while rig.door.parts.sessions or rig.door.parts.tasks:
            await asyncio.sleep(0)


@given(pieces=pieces)
@settings(deadline=None)
def test_any_bytes_get_replies_or_a_hang_up(opened: Opened, pieces: list[bytes]) -> None:
    rig = opened.rig
    kept = len(rig.mail.mails)
    with capture_logs() as logs:
        words = opened.runner.run(say(rig, pieces))
        opened.runner.run(_settled(rig))

    # A reset may have cost the end of what was said.
    assert re.fullmatch(rb"(?:" + REPLY.pattern + rb")*(?:[2345]\d?\d?[ -~]*)?", words), words
    assert [one for one in logs if one["log_level"] == "error"] == []
    assert rig.held_bytes == 0
    assert words.count(MAIL_OK) <= len(rig.mail.mails) - kept, "no 250 without its mail"


@given(pieces=pieces)
@settings(deadline=None)
def test_whatever_one_client_says_another_delivers(opened: Opened, pieces: list[bytes]) -> None:
    async def both() -> bytes:
        rude = asyncio.create_task(say(opened.rig, pieces))
        talk = await opened.rig.in_data()
        talk.send(b"Subject: mine\r\n\r\nhello\r\n.\r\n")
        reply = await talk.reply()
        talk.writer.transport.abort()
        await rude
        return reply

    assert opened.runner.run(both()) == MAIL_OK
    assert b"Subject: mine\r\n\r\nhello\r\n" in opened.rig.mail.raws
