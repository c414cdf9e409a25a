"""No bytes within a mail become a second mail, however other servers would read them."""

import pytest

from tests.edge.smtp.rig import BOX, open_door
from tests.edge.smtp.test_mail_data import FALSE_ENDS

FORGED = b"MAIL FROM:<boss@b.test>\r\nRCPT TO:<box@in.test>\r\nDATA\r\nforged\r\n.\r\nQUIT\r\n"


@pytest.mark.parametrize("false_end", FALSE_ENDS)
async def test_a_mail_with_a_bare_line_end_is_refused_and_the_session_ends(
    false_end: bytes,
) -> None:
    async with open_door() as rig:
        talk = await rig.in_data()
        talk.send(b"Subject: x\r\n\r\nhello" + false_end + FORGED)

        words = await talk.rest()

        assert words.startswith(b"550 5.5.2 ")
        assert words.count(b"\r\n") == 1, "nothing that follows is answered"
        assert rig.mail.mails == []
        assert [(a, r.code, r.reason) for a, r in rig.mail.refusals] == [
            (BOX, 550, "bare_line_ending")
        ]
        assert rig.held_bytes == 0


@pytest.mark.parametrize("line", [b"NOOP\n", b"NOOP\r", b"NOOP\rNOOP\r\n", b"\n", b"\r\r\n"])
async def test_a_command_with_a_bare_line_end_ends_the_session(line: bytes) -> None:
    async with open_door() as rig:
        talk = await rig.session()
        talk.send(line + b"NOOP\n")

        words = await talk.rest()

        assert words.startswith(b"550 5.5.2 ")
        assert words.count(b"\r\n") == 1


async def test_a_mail_that_does_not_wait_for_its_turn_is_refused() -> None:
    async with open_door() as rig:
        talk = await rig.session()
        talk.send(b"MAIL FROM:<a@b.test>\r\nRCPT TO:<box@in.test>\r\nDATA\r\nhello\r\n.\r\n")

        codes = [line[:9] for line in (await talk.rest()).split(b"\r\n")]

        assert codes == [b"250 2.1.0", b"250 2.1.5", b"554 5.5.0", b""]
        assert rig.mail.mails == []


async def test_a_body_behind_a_refused_data_is_not_taken_for_commands() -> None:
    async with open_door() as rig:
        talk = await rig.session()
        await talk.ask(b"MAIL FROM:<a@b.test>")
        await talk.ask(b"RCPT TO:<nobody@in.test>")
        talk.send(b"DATA\r\nSubject: x\r\n\r\n" + FORGED)

        words = await talk.rest()

        assert words.startswith(b"554 5.5.1 ")
        assert rig.mail.mails == []


async def test_two_dots_that_meet_a_line_end_do_not_end_a_mail() -> None:
    async with open_door() as rig:
        talk = await rig.in_data()
        talk.send(b"..\r\n..\r\n...\r\n.")
        talk.send(b"\r")
        talk.send(b"\n")

        assert (await talk.reply()).startswith(b"250 ")
        assert rig.mail.raws == [b".\r\n.\r\n..\r\n"]
