"""The limits of the SMTP door: each is kept, said in its code, counted, and hurts nobody else."""

import asyncio
import resource

import pytest

from mailonce.core.inboxes.inbox import RefusalReason
from mailonce.edge.smtp.limits import Rate
from mailonce.edge.smtp.protocol import SmtpProtocol
from tests.edge.smtp.rig import BOX, Inboxes, Rig, Talk, open_door, until

MB = 1 << 20


def look(rig: Rig, *, later_s: float) -> None:
    """Look at all sessions as if so much time had passed."""
    rig.door.parts.connections.look(asyncio.get_running_loop().time() + later_s)


async def pour(talk: Talk, piece: bytes, count: int) -> bool:
    """Send pieces as fast as they are taken; say whether all of them were."""
    try:
        for _ in range(count):
            talk.send(piece)
            await asyncio.wait_for(talk.writer.drain(), 30)
    except (ConnectionError, TimeoutError):
        return False
    return True


async def test_one_connection_too_many_is_refused_at_once() -> None:
    async with open_door(connections_max=3) as rig:
        talks = [await rig.connect() for _ in range(3)]

        extra = await rig.connect(greets=False)

        assert (await extra.rest()).startswith(b"421 4.7.0 ")
        assert rig.refused("connections") == 1
        assert (await talks[0].ask(b"NOOP")).startswith(b"250 "), "the others are as before"


async def test_who_has_waited_longest_makes_room() -> None:
    async with open_door(connections_max=3) as rig:
        talks = [await rig.connect() for _ in range(3)]
        for session in rig.door.parts.sessions:
            session.since -= 5  # type: ignore[attr-defined]

        extra = await rig.session()

        assert (await extra.ask(b"NOOP")).startswith(b"250 ")
        assert rig.refused("make_room") == 1
        gone = [talk for talk in talks if talk.reader.at_eof() or await _ends(talk)]
        assert len(gone) == 1


async def _ends(talk: Talk) -> bool:
    talk.send(b"NOOP\r\n")
    return (await talk.reply()).startswith(b"421 ")


async def test_an_address_has_a_share_of_the_connections() -> None:
    async with open_door(address_connections_max=2, unlimited=[]) as rig:
        for _ in range(2):
            await rig.connect()

        assert (await (await rig.connect(greets=False)).rest()).startswith(b"421 4.7.0 ")
        assert rig.refused("address_connections") == 1


async def test_an_address_that_connects_too_often_is_refused() -> None:
    async with open_door(address_connects_per_minute_max=2, unlimited=[]) as rig:
        for _ in range(2):
            await (await rig.connect()).ask(b"QUIT")

        assert (await (await rig.connect(greets=False)).rest()).startswith(b"421 4.7.0 ")
        assert rig.refused("address_connects") == 1


async def test_an_address_that_sends_too_many_mails_is_told_to_wait() -> None:
    async with open_door(address_mails_per_minute_max=2, unlimited=[]) as rig:
        talk = await rig.session()
        for _ in range(2):
            assert (await talk.ask(b"MAIL FROM:<>")).startswith(b"250 ")
            await talk.ask(b"RSET")

        assert (await talk.ask(b"MAIL FROM:<>")).startswith(b"450 4.7.1 ")
        assert rig.mail.refusals[-1][1].reason == RefusalReason.RATE


async def test_addresses_without_a_limit_have_none() -> None:
    async with open_door(
        address_mails_per_minute_max=1, address_connects_per_minute_max=1, address_connections_max=1
    ) as rig:
        talks = [await rig.session() for _ in range(4)]
        for talk in talks:
            assert (await talk.ask(b"MAIL FROM:<>")).startswith(b"250 ")


def test_a_rate_counts_by_address_and_forgets_after_a_minute() -> None:
    rate = Rate(2)

    assert [rate.exceeds("a", 0.0) for _ in range(3)] == [False, False, True]
    assert not rate.exceeds("b", 1.0)
    assert not rate.exceeds(None, 1.0)
    assert rate.exceeds("a", 59.0)
    assert not rate.exceeds("a", 61.0)


async def test_recipients_above_the_limit_are_left_for_another_mail() -> None:
    mail = Inboxes(addresses={f"box{number}@in.test" for number in range(5)})
    async with open_door(mail, recipients_max=3) as rig:
        talk = await rig.session()
        await talk.ask(b"MAIL FROM:<>")
        codes = [(await talk.ask(b"RCPT TO:<box%d@in.test>" % n))[:9] for n in range(5)]
        assert codes == [b"250 2.1.5"] * 3 + [b"452 4.5.3"] * 2
        await talk.ask(b"DATA")
        talk.send(b"x\r\n.\r\n")

        assert (await talk.reply()).startswith(b"250 ")
        assert len(rig.mail.inboxes[0]) == 3
        assert [(a, r.code) for a, r in rig.mail.refusals] == [
            ("box3@in.test", 452),
            ("box4@in.test", 452),
        ]


async def test_too_many_commands_end_a_session() -> None:
    async with open_door(commands_max=10) as rig:
        talk = await rig.connect()
        talk.send(b"NOOP\r\n" * 200)

        lines = (await talk.rest()).split(b"\r\n")

        assert [line[:3] for line in lines] == [b"250"] * 10 + [b"421", b""]


async def test_too_many_errors_end_a_session_and_a_mail_forgives_them() -> None:
    async with open_door(errors_max=3) as rig:
        talk = await rig.in_data()
        talk.send(b"x\r\n.\r\n")
        assert (await talk.reply()).startswith(b"250 ")
        for _ in range(3):
            assert (await talk.ask(b"WRONG")).startswith(b"500 ")

        assert (await talk.ask(b"WRONG")).startswith(b"421 4.7.0 ")
        assert await talk.rest() == b""


async def test_recipients_cannot_be_guessed_without_end() -> None:
    async with open_door(errors_max=5) as rig:
        talk = await rig.session()
        await talk.ask(b"MAIL FROM:<>")
        codes = [(await talk.ask(b"RCPT TO:<guess%d@in.test>" % n))[:3] for n in range(6)]

        assert codes == [b"550"] * 5 + [b"421"]


async def test_a_command_line_without_an_end_is_not_waited_for() -> None:
    async with open_door(command_bytes_max=512) as rig:
        talk = await rig.connect()
        await pour(talk, b"x" * 65_536, 16)

        assert (await talk.rest()).startswith(b"500 5.5.2 ")
        assert rig.held_bytes == 0


async def test_a_long_command_is_taken_up_to_the_limit() -> None:
    async with open_door(command_bytes_max=512) as rig:
        talk = await rig.connect()
        assert (await talk.ask(b"NOOP " + b"x" * 500)).startswith(b"250 ")

        assert (await talk.ask(b"NOOP " + b"x" * 600)).startswith(b"500 5.5.2 ")


async def test_a_mail_that_is_announced_too_large_is_refused_to_each_of_its_inboxes() -> None:
    async with open_door(message_bytes_max=10_000) as rig:
        talk = await rig.session()

        assert (await talk.ask(b"MAIL FROM:<> SIZE=10001")).startswith(b"250 ")
        assert (await talk.ask(b"RCPT TO:<box@in.test>")).startswith(b"552 5.3.4 ")
        assert (await talk.ask(b"DATA")).startswith(b"554 5.5.1 ")
        assert (await talk.ask(b"RSET")).startswith(b"250 ")
        assert (await talk.ask(b"MAIL FROM:<> SIZE=10000")).startswith(b"250 ")
        assert (await talk.ask(b"RCPT TO:<box@in.test>")).startswith(b"250 ")

        [(address, refusal)] = [one[:2] for one in rig.mail.refusals]
        assert (address, refusal.reason) == ("box@in.test", RefusalReason.SIZE)


async def test_a_mail_that_turns_out_too_large_is_not_held() -> None:
    async with open_door(message_bytes_max=100_000) as rig:
        talk = await rig.in_data()
        line = b"y" * 998 + b"\r\n"
        highest = 0
        for _ in range(80):
            talk.send(line * 50)
            await talk.writer.drain()
            await asyncio.sleep(0)
            highest = max(highest, rig.held_bytes)
        talk.send(b".\r\n")

        assert (await talk.reply()).startswith(b"552 5.3.4 ")
        assert highest < 400_000, "one piece above the limit at most"
        assert (await talk.ask(b"NOOP")).startswith(b"250 "), "the session goes on"
        assert [(a, r.reason) for a, r in rig.mail.refusals] == [(BOX, RefusalReason.SIZE)]
        assert rig.held_bytes == 0


async def test_a_mail_that_never_ends_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mailonce.edge.smtp.intake.UNKEPT_BYTES_MAX", MB)
    async with open_door(message_bytes_max=100_000) as rig:
        talk = await rig.in_data()
        await pour(talk, (b"y" * 998 + b"\r\n") * 64, 64)

        assert (await talk.rest()).startswith(b"552 5.3.4 ")


async def test_a_line_without_an_end_costs_no_memory() -> None:
    async with open_door(data_line_bytes_max=64 << 10) as rig:
        talk = await rig.in_data()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        highest = 0
        for _ in range(64):
            await pour(talk, b"z" * 65_536, 1)
            highest = max(highest, rig.held_bytes)
        talk.send(b"\r\n.\r\n")

        assert (await talk.reply()).startswith(b"500 5.6.0 ")
        assert highest <= 512 << 10
        grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown_kb < 8 << 10, "four megabytes came, and none of them stayed"
        assert rig.mail.mails == []


async def test_all_sessions_together_hold_no_more_than_the_limit() -> None:
    async with open_door(held_bytes_max=4 * MB, message_bytes_max=2 * MB) as rig:
        talks = [await rig.in_data() for _ in range(6)]
        line = b"w" * 998 + b"\r\n"
        for talk in talks:
            assert await pour(talk, line * 1000, 1)
        await until(lambda: rig.refused("make_room") == 0, "nobody has stalled yet")
        highest = rig.held_bytes
        for talk in talks:
            talk.send(b".\r\n")

        codes = sorted([(await talk.reply())[:9] for talk in talks])

        assert b"452 4.3.1" in codes
        assert b"250 2.0.0" in codes
        assert highest <= 4 * MB + (256 << 10)
        assert len(rig.mail.mails) == codes.count(b"250 2.0.0")
        assert rig.held_bytes == 0
        for talk in talks:
            assert (await talk.ask(b"NOOP")).startswith(b"250 ")


async def test_no_mail_begins_while_too_much_is_held() -> None:
    async with open_door(held_bytes_max=MB, message_bytes_max=MB) as rig:
        rig.mail.may_store.clear()
        first = await rig.in_data()
        first.send((b"w" * 998 + b"\r\n") * 1048 + b".\r\n")
        await until(lambda: rig.mail.waiting == 1, "a large mail waits to be stored")
        talk = await rig.session()
        held = rig.held_bytes
        rig.door.parts.connections.hold(next(iter(rig.door.parts.sessions)), MB - held, 0.0)  # type: ignore[arg-type]

        assert (await talk.ask(b"MAIL FROM:<>")).startswith(b"452 4.3.1 ")

        rig.door.parts.connections.release(MB - held)
        rig.mail.may_store.set()
        assert (await first.reply()).startswith(b"250 ")
        assert (await talk.ask(b"MAIL FROM:<>")).startswith(b"250 ")


async def test_a_client_that_says_nothing_is_hung_up_on() -> None:
    async with open_door(command_timeout_s=300) as rig:
        talk, other = await rig.session(), await rig.connect()
        talk.send(b"NOO")
        await until(lambda: rig.held_bytes == 3, "half a command came")

        look(rig, later_s=299)
        assert len(rig.door.parts.sessions) == 2
        look(rig, later_s=301)

        for one in (talk, other):
            assert (await one.rest()).startswith(b"421 4.4.2 ")
        assert rig.refused("command_timeout") == 2


async def test_a_mail_that_trickles_is_hung_up_on() -> None:
    async with open_door(data_timeout_s=100, data_bytes_per_s_min=1000) as rig:
        slow, quick = await rig.in_data(), await rig.in_data()
        slow.send(b"x\r\n" * 10)
        quick.send(b"x\r\n" * 10_000)
        await until(lambda: rig.held_bytes >= 30_030, "both have sent something")
        for session in rig.door.parts.sessions:
            session.read_at += 110  # type: ignore[attr-defined]

        look(rig, later_s=110)

        assert (await slow.rest()).startswith(b"421 4.4.2 ")
        quick.send(b".\r\n")
        assert (await quick.reply()).startswith(b"250 "), "that one kept its pace"
        assert rig.refused("data_timeout") == 1
        assert [a for a, _ in rig.mail.refusals] == [BOX]


async def test_a_mail_that_stalls_is_hung_up_on() -> None:
    async with open_door(data_timeout_s=100) as rig:
        talk = await rig.in_data()
        talk.send(b"x\r\n" * 10_000)
        await until(lambda: rig.held_bytes > 29_000, "it has sent something")

        look(rig, later_s=101)

        assert (await talk.rest()).startswith(b"421 4.4.2 ")
        assert rig.held_bytes == 0


async def test_a_session_has_an_end() -> None:
    async with open_door(session_timeout_s=1000, command_timeout_s=5000) as rig:
        talk = await rig.session()

        look(rig, later_s=1001)

        assert (await talk.rest()).startswith(b"421 4.4.2 ")
        assert rig.refused("session_timeout") == 1


async def test_storing_that_takes_too_long_is_not_waited_for() -> None:
    async with open_door(store_timeout_s=60) as rig:
        rig.mail.may_store.clear()
        talk = await rig.in_data()
        talk.send(b"x\r\n.\r\n")
        await until(lambda: rig.mail.waiting == 1, "the mail waits to be stored")

        look(rig, later_s=61)

        assert (await talk.rest()).startswith(b"421 4.3.0 ")
        rig.mail.may_store.set()
        await until(lambda: rig.mail.raws == [b"x\r\n"], "it is stored all the same")
        await until(lambda: rig.held_bytes == 0, "and held no longer")


async def test_a_client_that_never_reads_is_not_read_either() -> None:
    async with open_door(commands_max=10_000_000, answer_timeout_s=60) as rig:
        talk = await rig.connect()
        talk.writer.get_extra_info("socket").setsockopt(1, 8, 4096)
        piece = b"HELP\r\n" * 10_000
        for _ in range(400):
            talk.send(piece)
            await asyncio.sleep(0)
        await until(lambda: _is_stuck(rig), "the door reads no more of it")
        assert rig.held_bytes < MB

        now = asyncio.get_running_loop().time()
        rig.door.parts.connections.look(now)
        rig.door.parts.connections.look(now + 61)

        await until(lambda: not rig.door.parts.sessions, "it is disconnected")
        assert rig.refused("answer_timeout") == 1


def _is_stuck(rig: Rig) -> bool:
    """Say whether nothing is read, because replies cannot be written."""
    (session,) = rig.door.parts.sessions
    assert isinstance(session, SmtpProtocol)
    return session._is_write_paused and not session._is_reading


async def test_one_client_with_many_commands_does_not_hold_up_another() -> None:
    async with open_door(commands_max=1_000_000) as rig:
        busy, other = await rig.connect(), await rig.connect()
        busy.send(b"NOOP\r\n" * 40_000)
        await busy.reply()

        assert (await other.ask(b"HELP")).startswith(b"214 ")

        handled = [one._talk._commands for one in rig.door.parts.sessions]  # type: ignore[attr-defined]
        assert max(handled) < 40_000, "the other one did not wait for all of that"


async def test_one_client_with_a_large_mail_is_read_in_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    by_turn: list[int] = [0]
    hear = SmtpProtocol.received

    def received(self: SmtpProtocol, data: bytes) -> None:
        by_turn[-1] += len(data)
        hear(self, data)

    def next_turn() -> None:
        by_turn.append(0)
        loop.call_soon(next_turn)

    async with open_door() as rig:
        talk = await rig.in_data()
        monkeypatch.setattr(SmtpProtocol, "received", received)
        loop.call_soon(next_turn)
        # From a thread: the kernel's buffers are full whenever the door looks.
        plain = talk.writer.get_extra_info("socket").dup()
        plain.setblocking(True)
        await asyncio.to_thread(plain.sendall, (b"v" * 998 + b"\r\n") * 8000 + b".\r\n")
        plain.setblocking(False)
        plain.close()

        assert (await talk.reply()).startswith(b"250 ")

    assert sum(by_turn) > 7 * MB
    assert max(by_turn) <= 512 << 10


async def test_a_flood_of_connections_leaves_nothing_behind() -> None:
    async with open_door(connections_max=20) as rig:

        async def visit() -> bytes:
            talk = await rig.connect(greets=False)
            talk.send(b"QUIT\r\n")
            return await talk.rest()

        words = await asyncio.gather(*(visit() for _ in range(300)))

        assert all(one[:3] in {b"220", b"421", b""} for one in words)
        await until(lambda: not rig.door.parts.sessions, "all of them have gone")
        assert rig.held_bytes == 0
        assert (await rig.session()) is not None
