"""Whoever may read the mail is told what was seen in it, and nobody else is."""

from mailonce.core.access import Caller, Scope
from mailonce.views.explanation import HINTS_MAX, explain
from tests.inbox.expectations.waiting_room import WaitingRoom

RAW = b"From: shop@example.org\r\nTo: ann@in.test\r\nSubject: hi\r\n\r\nHello 49281%d\r\n"


async def hints(room: WaitingRoom, scope: Scope, expectation: bytes) -> list[str | None]:
    caller = Caller("default", scope, "key_1")
    database = room.desk.service.database
    shown = await explain(database, caller, expectation, {}, now_ms=0)
    return [one["hint"] for one in shown["judged"]]


async def test_operators_are_told_what_was_seen_in_the_latest_mails(room: WaitingRoom) -> None:
    expectation = await room.open()
    for number in range(HINTS_MAX + 1):
        await room.send(RAW % number)

    seen = await hints(room, Scope.OPERATOR, expectation.id)

    assert seen[0] is None
    assert [(one or "")[:11] for one in seen[1:]] == ["492811 seen", "492812 seen", "492813 seen"]
    for scope in (Scope.READER, Scope.AGENT):
        assert await hints(room, scope, expectation.id) == [None] * (HINTS_MAX + 1)
