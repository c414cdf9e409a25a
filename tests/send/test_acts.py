"""What people do to sends: nobody gets a second mail of one that is sent by itself."""

import asyncio

import pytest

from mailonce.core.sends.sending import SendOutcome
from mailonce.errors import ClashError
from mailonce.send.acts import SendActs
from mailonce.store.schema.send_tables import SEND_ATTEMPTS
from tests.core.sends.send_requests import make_request
from tests.send.office import OK, Office


async def test_what_is_sent_by_itself_is_not_sent_again(office: Office) -> None:
    await office.add_sender()
    acts = SendActs(office.database, office.clock, office.time, office.configuration, office.wakes)
    [sent] = await office.submit(make_request())
    id_, may_answer = sent.send.id, asyncio.Event()

    async def answer() -> SendOutcome:
        await may_answer.wait()
        return OK

    office.provider.answers = lambda _: answer()

    with pytest.raises(ClashError, match="this send is pending and will be sent by itself"):
        await acts.resend("default", id_, by="test")
    office.start()
    await office.until("in_flight")
    with pytest.raises(ClashError, match="this send is being sent now; see its state in a moment"):
        await acts.resend("default", id_, by="test")
    may_answer.set()
    await office.until("accepted")
    with pytest.raises(ClashError, match="this send is accepted, and only what is refused"):
        await acts.resend("default", id_, by="test")

    assert len(office.provider.calls) == 1
    assert await office.steps() == [("call", "accepted")]
    assert len(await office.rows(SEND_ATTEMPTS)) == 1
