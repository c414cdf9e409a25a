"""Sessions over real sockets: what is answered, and what is kept."""

import asyncio
import smtplib
import socket

import pytest

from mailonce.core.inboxes.inbox import (
    EXPIRED,
    FULL_OF_MAILS,
    TOO_LARGE_FOR_IT,
    KnownInbox,
    NoRoomError,
)
from mailonce.core.mail.incoming import MailEnvelope
from mailonce.errors import UnavailableError
from mailonce.pipeline.record import FullError
from tests.edge.smtp.rig import BOX, Inboxes, open_door, until

MAIL = b"From: a@b.test\r\nTo: box@in.test\r\nSubject: hi\r\n\r\n.dot\r\n..\r\nend\r\n"
STUFFED = MAIL.replace(b"\r\n.", b"\r\n..") + b".\r\n"


async def test_smtplib_delivers_and_the_bytes_are_kept_as_they_were() -> None:
    async with open_door() as rig:

        def send() -> dict[str, tuple[int, bytes]]:
            with smtplib.SMTP("127.0.0.1", rig.port, local_hostname="client.test") as client:
                return client.sendmail("a@b.test", [BOX], MAIL)

        assert await asyncio.to_thread(send) == {}

        assert rig.mail.raws == [MAIL]
        assert rig.mail.mails[0].envelope == MailEnvelope(
            mail_from="a@b.test",
            recipients=(BOX,),
            origin="smtp",
            helo="client.test",
            client_ip="127.0.0.1",
        )
        assert rig.mail.sizes == [len(MAIL)], "smtplib says the size of what it sends"


async def test_250_comes_after_the_mail_is_stored() -> None:
    async with open_door() as rig:
        rig.mail.may_store.clear()
        talk = await rig.in_data()
        talk.send(STUFFED)
        await until(lambda: rig.mail.waiting == 1, "the mail waits to be stored")
        reply = asyncio.create_task(talk.reply())
        await asyncio.sleep(0)
        assert not reply.done()

        rig.mail.may_store.set()

        assert (await reply).startswith(b"250 2.0.0 ")
        assert rig.mail.raws == [MAIL]


async def test_recipients_that_are_remembered_are_answered_in_the_turn_of_their_command() -> None:
    mail = Inboxes(check_error=AssertionError("nobody needs to be asked"), takes_at_once=True)
    mail.remembered = {BOX: KnownInbox("inb_box", "default", BOX), "old@in.test": EXPIRED}
    async with open_door(mail) as rig:
        talk = await rig.session()
        talk.send(b"MAIL FROM:<a@b.test>\r\nRCPT TO:<old@in.test>\r\nRCPT TO:<box@in.test>\r\n")
        talk.send(b"DATA\r\n")

        codes = [(await talk.reply())[:3] for _ in range(4)]
        talk.send(STUFFED)

        assert codes == [b"250", b"550", b"250", b"354"]
        assert (await talk.reply()).startswith(b"250 2.0.0 ")
        assert (mail.raws, mail.inboxes) == ([MAIL], [["inb_box"]])
        assert mail.refusals == [("old@in.test", EXPIRED)]


async def test_the_door_says_what_it_offers() -> None:
    async with open_door(message_bytes_max=123_456) as rig:
        talk = await rig.connect()

        lines = (await talk.ask(b"EHLO me")).split(b"\r\n")

        assert lines[0] == b"250-mx.test"
        assert {line[4:] for line in lines[1:-1]} == {
            b"SIZE 123456", b"8BITMIME", b"SMTPUTF8", b"PIPELINING", b"ENHANCEDSTATUSCODES",
            b"HELP",
        }  # fmt: skip
        assert (await talk.ask(b"HELO me")) == b"250 mx.test\r\n"


async def test_a_group_of_commands_is_answered_in_its_order() -> None:
    mail = Inboxes(addresses={BOX, "ox@in.test"})
    async with open_door(mail) as rig:
        talk = await rig.session()
        talk.send(
            b"MAIL FROM:<a@b.test>\r\nRCPT TO:<box@in.test>\r\nRCPT TO:<nobody@in.test>\r\n"
            b"RCPT TO:<ox@in.test>\r\nDATA\r\n"
        )
        assert [(await talk.reply())[:9] for _ in range(5)] == [
            b"250 2.1.0", b"250 2.1.5", b"550 5.1.1", b"250 2.1.5", b"354 send ",
        ]  # fmt: skip

        talk.send(STUFFED + b"NOOP\r\nMAIL FROM:<>\r\nRSET\r\nQUIT\r\n")

        codes = [(await talk.reply())[:3] for _ in range(5)]
        assert codes == [b"250", b"250", b"250", b"250", b"221"]
        assert await talk.rest() == b""
        assert rig.mail.inboxes == [["inb_box@in.test", "inb_ox@in.test"]]
        assert rig.mail.mails[0].envelope.recipients == (BOX, "ox@in.test")
        assert [(a, r.code) for a, r in rig.mail.refusals] == [("nobody@in.test", 550)]


async def test_an_inbox_that_is_named_twice_gets_one_mail() -> None:
    async with open_door() as rig:
        talk = await rig.session()
        for line in (b"MAIL FROM:<a@b.test>", b"RCPT TO:<box@in.test>", b"RCPT TO:<BOX@in.test>"):
            assert (await talk.ask(line)).startswith(b"250 ")
        assert (await talk.ask(b"DATA")).startswith(b"354 ")
        talk.send(STUFFED)

        assert (await talk.reply()).startswith(b"250 ")
        assert rig.mail.inboxes == [["inb_box@in.test"]]
        assert rig.mail.mails[0].envelope.recipients == (BOX, "BOX@in.test")


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ([b"MAIL FROM:<a@b.test>"], b"503 5.5.1"),
        ([b"AUTH PLAIN AGEAYg=="], b"502 5.5.1"),
        ([b"STARTTLS"], b"454 4.7.0"),
        ([b"EHLO"], b"501 5.5.4"),
        ([b"HELO  "], b"501 5.5.4"),
        ([b"EHLO me", b"RCPT TO:<box@in.test>"], b"503 5.5.1"),
        ([b"EHLO me", b"DATA"], b"503 5.5.1"),
        ([b"EHLO me", b"MAIL FROM:<a@b.test>", b"DATA"], b"503 5.5.1"),
        ([b"EHLO me", b"MAIL FROM:<a@b.test>", b"RCPT TO:<no@in.test>", b"DATA"], b"554 5.5.1"),
        ([b"EHLO me", b"MAIL FROM:<a@b.test>", b"MAIL FROM:<a@b.test>"], b"503 5.5.1"),
        ([b"EHLO me", b"MAIL FROM:<a@b.test>", b"RCPT TO:<b@other.test>"], b"550 5.1.1"),
        ([b"EHLO me", b"MAIL FROM:<a@b.test>", b"RSET", b"RCPT TO:<box@in.test>"], b"503 5.5.1"),
        ([b"EHLO me", b"MAIL FROM:<a@b.test>", b"EHLO me", b"DATA"], b"503 5.5.1"),
        (
            [b"EHLO me", b"MAIL FROM:<a@b.test> SIZE=99999999999", b"RCPT TO:<box@in.test>"],
            b"552 5.3.4",
        ),
        ([b"VRFY box@in.test"], b"252 2.1.5"),
        ([b"VRFY nobody@in.test"], b"252 2.1.5"),
        ([b"EXPN list"], b"502 5.5.1"),
        ([b"BDAT 12 LAST"], b"502 5.5.1"),
        ([b"HELP"], b"214 2.0.0"),
        ([b"NOOP whatever"], b"250 2.0.0"),
        ([b"noop"], b"250 2.0.0"),
        ([b"RSET x"], b"501 5.5.4"),
        ([b"XYZZY"], b"500 5.5.2"),
        ([b""], b"500 5.5.2"),
        ([b"\xff\xfe\xfd"], b"500 5.5.2"),
        ([b"NOOP \x00"], b"500 5.5.2"),
        ([b"EHLO \x1b[31m"], b"500 5.5.2"),
    ],
)
async def test_codes(lines: list[bytes], code: bytes) -> None:
    async with open_door() as rig:
        talk = await rig.connect()
        for line in lines[:-1]:
            await talk.ask(line)

        assert (await talk.ask(lines[-1]))[:9] == code
        assert (await talk.ask(b"NOOP")) == b"250 2.0.0 OK\r\n", "the session goes on"


async def test_no_reply_repeats_what_a_client_sent() -> None:
    async with open_door() as rig:
        talk = await rig.session()
        for line in (b"EHLO ", b"NOOP ", b"VRFY ", b"HELP ", b"EXPN ", b"MAIL FROM:<a> ", b""):
            assert b"marker" not in await talk.ask(line + b"marker")


@pytest.mark.parametrize("word", [b"GET / HTTP/1.1", b"POST / HTTP/1.1", b"CONNECT x:25 HTTP/1.1"])
async def test_a_browser_is_hung_up_on(word: bytes) -> None:
    async with open_door() as rig:
        talk = await rig.connect()
        talk.send(word + b"\r\nHost: x\r\n\r\nMAIL FROM:<a@b.test>\r\n")

        assert (await talk.rest()).startswith(b"421 4.7.0 ")


async def test_bytes_beyond_ascii_and_nul_are_kept_without_being_announced() -> None:
    raw = b"Subject: \xe9\xff\r\n\r\n\x00\x80\xfe\r\n"
    async with open_door() as rig:
        talk = await rig.in_data()
        talk.send(raw + b".\r\n")

        assert (await talk.reply()).startswith(b"250 ")
        assert rig.mail.raws == [raw]


async def test_an_address_beyond_ascii_is_taken_with_smtputf8() -> None:
    async with open_door(Inboxes(addresses={"büx@in.test"})) as rig:
        talk = await rig.session()
        assert (await talk.ask("MAIL FROM:<jörg@b.test> SMTPUTF8".encode())).startswith(b"250")
        assert (await talk.ask("RCPT TO:<büx@in.test>".encode())).startswith(b"250")
        assert (await talk.ask(b"DATA")).startswith(b"354")
        talk.send(b"x\r\n.\r\n")

        assert (await talk.reply()).startswith(b"250")
        assert rig.mail.mails[0].envelope.mail_from == "jörg@b.test"


async def test_where_the_store_is_away_the_sender_is_told_to_try_again() -> None:
    async with open_door() as rig:
        rig.mail.check_error = UnavailableError("the database at db.internal is away")
        talk = await rig.session()
        await talk.ask(b"MAIL FROM:<a@b.test>")
        assert (await talk.ask(b"RCPT TO:<box@in.test>")).startswith(b"451 4.3.0 ")
        assert (await talk.ask(b"DATA")).startswith(b"554 5.5.1 ")

        rig.mail.check_error = None
        assert (await talk.ask(b"RCPT TO:<box@in.test>")).startswith(b"250 ")
        assert [(a, r.code) for a, r in rig.mail.refusals] == [(BOX, 451)]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UnavailableError("secret detail"), b"451 4.3.0 "),
        (FullError("secret detail"), b"452 4.3.1 "),
        (KeyError("secret detail"), b"451 4.3.0 "),
        (NoRoomError(FULL_OF_MAILS), b"452 4.2.2 "),
        (NoRoomError(TOO_LARGE_FOR_IT), b"552 5.2.2 "),
    ],
)
@pytest.mark.parametrize("at_once", [False, True])
async def test_a_mail_that_cannot_be_stored_is_not_accepted(
    error: Exception,
    code: bytes,
    at_once: bool,  # noqa: FBT001
) -> None:
    async with open_door(Inboxes(takes_at_once=at_once)) as rig:
        rig.mail.accept_error = error
        talk = await rig.in_data()
        talk.send(STUFFED)

        reply = await talk.reply()

        assert reply.startswith(code)
        assert b"secret" not in reply
        assert rig.held_bytes == 0
        rig.mail.accept_error = None
        assert (await talk.ask(b"MAIL FROM:<a@b.test>")).startswith(b"250 "), "the session goes on"


async def test_a_client_that_hangs_up_before_the_reply_has_sent_its_mail() -> None:
    async with open_door() as rig:
        rig.mail.may_store.clear()
        talk = await rig.in_data()
        talk.send(STUFFED)
        await until(lambda: rig.mail.waiting == 1, "the mail waits to be stored")
        talk.reset()
        await until(lambda: not rig.door.parts.sessions, "the client has gone")
        assert rig.held_bytes > 0, "what is being stored still counts"

        rig.mail.may_store.set()

        await until(lambda: rig.mail.raws == [MAIL], "the mail stands")
        await until(lambda: rig.held_bytes == 0, "nothing is held any more")


async def test_a_client_that_only_stops_sending_still_gets_its_replies() -> None:
    async with open_door() as rig:
        rig.mail.may_store.clear()
        talk = await rig.in_data()
        talk.send(STUFFED + b"NOOP\r\nQUIT\r\n")
        talk.writer.write_eof()
        await until(lambda: rig.mail.waiting == 1, "the mail waits to be stored")

        rig.mail.may_store.set()

        replies = (await talk.rest()).split(b"\r\n")
        assert [line[:3] for line in replies] == [b"250", b"250", b"221", b""]


async def test_of_a_mail_that_breaks_off_nothing_is_kept() -> None:
    async with open_door() as rig:
        talk = await rig.in_data()
        talk.send(MAIL)
        await until(lambda: rig.held_bytes > len(MAIL) // 2, "it is being read")

        talk.reset()

        await until(lambda: not rig.door.parts.sessions, "the client has gone")
        assert (rig.mail.mails, rig.held_bytes) == ([], 0)


async def test_many_mails_leave_one_session_in_their_order() -> None:
    async with open_door() as rig:
        talk = await rig.session()
        for number in range(30):
            for line in (b"MAIL FROM:<>", b"RCPT TO:<box@in.test>", b"DATA"):
                assert (await talk.ask(line))[:1] in b"23"
            talk.send(b"%d\r\n.\r\n" % number)
            assert (await talk.reply()).startswith(b"250 ")

        assert rig.mail.raws == [b"%d\r\n" % number for number in range(30)]


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
async def test_a_socket_for_both_versions_of_ip_knows_which_one_a_client_has() -> None:
    async with open_door(address="::", address_connections_max=1) as rig:
        for host in ("127.0.0.1", "127.0.0.1", "::1", "::1"):
            assert (await rig.connect(host=host)).reader is not None

        addresses = {session.client_ip for session in rig.door.parts.sessions}  # type: ignore[attr-defined]
        assert addresses == {"127.0.0.1", "::1"}
