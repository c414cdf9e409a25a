"""Stopping: a mail under way is finished, everybody else is told, nobody is waited for long."""

import asyncio

from mailonce.edge.smtp.door import SmtpDoor
from tests.edge.smtp.rig import BOX, open_door, until


async def test_who_waits_is_told_and_new_clients_do_not_get_in() -> None:
    async with open_door() as rig:
        idle, talk = await rig.session(), await rig.session()
        await talk.ask(b"MAIL FROM:<a@b.test>")

        await rig.door.stop()

        for one in (idle, talk):
            assert (await one.rest()).startswith(b"421 4.3.2 ")
        assert not rig.door.parts.sessions


async def test_a_mail_that_is_half_sent_is_finished_first() -> None:
    async with open_door() as rig:
        talk = await rig.in_data()
        talk.send(b"one\r\n")
        await until(lambda: rig.held_bytes > 5, "it is being read")

        stopping = asyncio.create_task(rig.door.stop())
        await until(lambda: rig.door.parts.is_stopping, "the door stops")
        talk.send(b"two\r\n.\r\n")

        lines = (await talk.rest()).split(b"\r\n")
        assert [line[:9] for line in lines] == [b"250 2.0.0", b"421 4.3.2", b""]
        await stopping
        assert rig.mail.raws == [b"one\r\ntwo\r\n"]


async def test_a_mail_that_is_being_stored_is_answered_first() -> None:
    async with open_door() as rig:
        rig.mail.may_store.clear()
        talk = await rig.in_data()
        talk.send(b"x\r\n.\r\n")
        await until(lambda: rig.mail.waiting == 1, "the mail waits to be stored")

        stopping = asyncio.create_task(rig.door.stop())
        await until(lambda: rig.door.parts.is_stopping, "the door stops")
        rig.mail.may_store.set()

        lines = (await talk.rest()).split(b"\r\n")
        assert [line[:9] for line in lines] == [b"250 2.0.0", b"421 4.3.2", b""]
        await stopping


async def test_a_mail_whose_client_has_gone_is_stored_before_the_door_is_closed() -> None:
    async with open_door() as rig:
        rig.mail.may_store.clear()
        talk = await rig.in_data()
        talk.send(b"x\r\n.\r\n")
        await until(lambda: rig.mail.waiting == 1, "the mail waits to be stored")
        talk.reset()
        await until(lambda: not rig.door.parts.sessions, "the client has gone")

        stopping = asyncio.create_task(rig.door.stop())
        await until(lambda: rig.door.parts.is_stopping, "the door stops")
        assert not stopping.done()
        rig.mail.may_store.set()
        await stopping

        assert rig.mail.raws == [b"x\r\n"]
        assert rig.held_bytes == 0


async def test_a_mail_that_does_not_end_is_not_waited_for() -> None:
    async with open_door(drain_s=0.1) as rig:
        talk = await rig.in_data()
        talk.send(b"one\r\n")
        await until(lambda: rig.held_bytes > 5, "it is being read")

        await rig.door.stop()

        assert (await talk.rest()).startswith(b"421 4.3.2 ")
        assert rig.mail.mails == []
        assert [a for a, _ in rig.mail.refusals] == [BOX]
        assert rig.held_bytes == 0


async def test_storing_that_does_not_end_is_not_waited_for() -> None:
    async with open_door(drain_s=0.1) as rig:
        rig.mail.may_store.clear()
        talk = await rig.in_data()
        talk.send(b"x\r\n.\r\n")
        await until(lambda: rig.mail.waiting == 1, "the mail waits to be stored")

        await rig.door.stop()

        assert not (await talk.rest()).startswith(b"250"), "nobody knows whether it is durable"
        assert not rig.door.parts.sessions
        await until(lambda: not rig.door.parts.tasks, "nothing is left behind")


async def test_stopping_twice_is_stopping_once() -> None:
    async with open_door() as rig:
        door: SmtpDoor = rig.door
        door.close()
        await door.stop()
        await door.stop()
