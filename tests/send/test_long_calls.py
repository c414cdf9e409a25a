"""A call that takes longer than a lease: it stands while its process is alive, and no longer."""

import asyncio

import asyncpg
import pytest
from sqlalchemy import update

from mailonce.core.sends import sender as sender_module
from mailonce.core.sends.send_key import given_key
from mailonce.core.sends.sender import Sender
from mailonce.core.sends.sending import (
    Accepted,
    Frozen,
    Sending,
    SendOutcome,
    SmtpRequest,
    TryAgain,
)
from mailonce.net.dialer import Dialer
from mailonce.net.smtp import SmtpClient
from mailonce.queue import worker
from mailonce.send.step import MayBegin
from mailonce.store.schema.send_tables import SENDS
from mailonce.testing.fakes import FakeSmtpServer, SmtpAct
from tests.core.sends.send_requests import make_request
from tests.send.office import OK, Answer, Office

QUICK = {"look_every_s": 0.05, "overdue_s": 0.2}


async def test_a_mail_server_may_take_longer_than_a_lease_for_its_answer(office: Office) -> None:
    async with FakeSmtpServer() as server:
        server.script(SmtpAct.ACCEPT_AND_WAIT)
        await office.add_sender(timeout_s=1.5, port=server.port)
        client = SmtpClient(
            Dialer(allow_hosts=["127.0.0.1"], hosts={}, ca_file=None, resolver=None)
        )

        async def transmit(
            request: Frozen, sender: Sender, sending: Sending, *, may_begin: MayBegin
        ) -> SendOutcome:
            del sending
            assert isinstance(request, SmtpRequest)
            return await client.send(request, sender, may_begin=may_begin)

        office.provider.transmit = transmit  # type: ignore[method-assign]
        office.start(**QUICK)
        await office.submit(make_request())
        await office.until_true(lambda: server.messages)
        [row] = await office.rows()

        async def is_over() -> bool:
            now_ms = (await office.database.head()).now_ms
            return now_ms > int(row["lease_ms"]) + 500

        await office.until_true(is_over)
        assert await office.states() == ["in_flight"]
        server.release()
        await office.until("accepted")

        assert await office.steps() == [("call", "accepted")]
        assert len(server.messages) == 1
        client.close()


async def test_a_lease_that_was_lost_is_not_renewed(office: Office) -> None:
    """As after a pause of the process: the send is unknown, and is not sent again."""
    await office.add_sender(timeout_s=60)
    answered: asyncio.Future[SendOutcome] = asyncio.get_running_loop().create_future()
    office.provider.answers = lambda _: answered
    office.start(**QUICK)
    await office.submit(make_request())
    await office.until_true(lambda: office.provider.calls)

    await office.database.write(lambda tx: tx.execute(update(SENDS).values(lease_ms=1)) and None)

    await office.until("unknown")
    assert len(office.provider.calls) == 1
    answered.set_result(Accepted(message_id="late", evidence="200"))
    await office.until("accepted")
    assert len(office.provider.calls) == 1


async def test_a_call_that_outlasts_its_own_bound_loses_its_lease(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender_module, "CONNECT_TIMEOUT_S", 1.0)
    await office.add_sender(provider="ses", timeout_s=0.1)
    forever: asyncio.Future[SendOutcome] = asyncio.get_running_loop().create_future()
    office.provider.answers = lambda _: forever
    office.start(**QUICK)

    await office.submit(make_request())

    await office.until("unknown")
    assert len(office.provider.calls) == 1


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("is_lost", [False, True], ids=["to be renewed", "lost"])
async def test_a_row_that_somebody_holds_keeps_no_other_mail_waiting(
    office: Office, database_url: str, monkeypatch: pytest.MonkeyPatch, *, is_lost: bool
) -> None:
    """SQLite has one writer: nobody else can hold a row."""
    # Each lease is renewed at every turn.
    monkeypatch.setattr(worker, "RENEW_AT_SHARE", 1.0)
    await office.add_sender(timeout_s=0.5 if is_lost else 60)
    await office.add_sender("patient", timeout_s=60)
    forever: asyncio.Future[SendOutcome] = asyncio.get_running_loop().create_future()
    # A second try is the worker's to find; a first one is leased as it is recorded.
    answers: dict[int, Answer] = {1: forever, 2: TryAgain(reason="later")}
    office.provider.answers = lambda call: answers.get(call, OK)
    # The first call is not stopped: its outcome has to wait for the row.
    office.start(look_every_s=0.05, overdue_s=60.0)
    await office.submit(make_request(sender="out"))
    await office.until_true(lambda: office.provider.calls)
    [row] = await office.rows()
    person = await asyncpg.connect(database_url)
    try:
        async with person.transaction():
            await person.execute("SELECT 1 FROM sends FOR UPDATE")
            if is_lost:
                # As far as it was renewed before it was held.
                await office.until_true(lambda: _is_past(office, int(row["lease_ms"]) + 1_000))

            other = make_request("bob@example.com", key=given_key("k-2"), sender="patient")
            await office.submit(other)

            await office.until_true(lambda: len(office.provider.calls) == 3)
    finally:
        await person.close()
    assert office.provider.by == ["out", "patient", "patient"]


async def _is_past(office: Office, moment_ms: int) -> bool:
    return (await office.database.head()).now_ms > moment_ms
