"""Suppressions as users see them, and what a person's word does."""

from itertools import permutations

import pytest

from mailonce.core.access import Scope
from mailonce.core.events.suppression import Cause
from mailonce.core.moment import moment
from mailonce.errors import MissingError
from mailonce.store.configuration import keys
from mailonce.store.configuration.keys import ApiKey
from mailonce.store.ledger import suppressions as store
from mailonce.views.paging import PageQuery
from mailonce.views.suppressions import (
    SuppressionJson,
    lift,
    list_suppressions,
    show_suppression,
    suppress,
)
from tests.factories import Ledger, make_body, make_source, new_id

MAIN = make_source()
ADA = "ada@example.com"
HOUR_S = 3600


class Desk:
    """A person at the API, with a clock of their own."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.now_s = ledger.now_ms // 1000

    async def says(self, number: int | str, word: str, *, at_s: int | None, **more: object) -> None:
        """An event arrives; its own time is relative to now."""
        time = None if at_s is None else self.now_s + at_s
        kind = {"bounce_type": "hard"} if word == "bounced" else {}
        body = make_body(number, type=word, timestamp=time, **(kind | more))
        await self.ledger.tell(MAIN, [body])

    async def suppresses(
        self, *, at_s: int = 0, reason: str | None = None, stream: str = ""
    ) -> SuppressionJson:
        now_ms = (self.now_s + at_s) * 1000
        return await suppress(
            self.ledger.database,
            "default",
            ADA,
            reason=reason,
            stream=stream,
            new_id=new_id(now_ms),
            now_ms=now_ms,
        )

    async def lifts(
        self,
        *,
        at_s: int = 0,
        cause: Cause | None = None,
        stream: str | None = None,
        by_key: str | None = None,
    ) -> SuppressionJson:
        now_ms = (self.now_s + at_s) * 1000
        return await lift(
            self.ledger.database,
            "default",
            ADA,
            cause=cause,
            stream=stream,
            by_key=by_key,
            new_id=new_id(now_ms),
            now_ms=now_ms,
        )

    async def sees(self) -> SuppressionJson:
        return await show_suppression(self.ledger.database, "default", ADA)


@pytest.fixture
def desk(ledger: Ledger) -> Desk:
    return Desk(ledger)


async def test_a_hard_bounce_suppresses_and_names_its_event(desk: Desk) -> None:
    await desk.says(1, "bounced", at_s=-60, reason="no such user")

    shown = await desk.sees()

    assert shown["suppressed"]
    [cause] = shown["causes"]
    assert cause["event"] is not None
    assert cause["event"].startswith("evt_")
    assert cause | {"event": None} == {
        "cause": "hard",
        "stream": None,
        "reason": "no such user",
        "suppressed_at": moment((desk.now_s - 60) * 1000),
        "event": None,
    }


async def test_soft_bounces_and_silence_do_not_suppress(desk: Desk) -> None:
    await desk.says(1, "bounced", at_s=0, bounce_type="soft")

    assert await desk.sees() == {"address": ADA, "suppressed": False, "causes": [], "lifts": []}


async def test_the_reason_is_that_of_the_earliest_whatever_came_first(desk: Desk) -> None:
    for number, at_s in ((1, -10), (2, -30), (3, -20)):
        await desk.says(number, "bounced", at_s=at_s, reason=f"at {at_s}")

    [cause] = (await desk.sees())["causes"]

    assert cause["reason"] == "at -30"


async def test_a_lift_covers_what_it_has_seen_even_when_stamped_ahead(desk: Desk) -> None:
    await desk.says(1, "bounced", at_s=2 * HOUR_S)

    lifted = await desk.lifts()

    assert not lifted["suppressed"]
    assert lifted["lifts"][0]["by"] == "person"


async def test_what_tells_no_time_suppresses_since_it_was_received(desk: Desk) -> None:
    await desk.says(1, "bounced", at_s=None)
    await desk.says(2, "unsubscribed", at_s=-60)
    await desk.says(3, "subscribed", at_s=None)

    shown = await desk.sees()

    assert [(one["cause"], one["suppressed_at"]) for one in shown["causes"]] == [
        ("hard", moment(desk.ledger.now_ms)),
        ("unsubscribe", moment((desk.now_s - 60) * 1000)),
    ]
    assert [one["lifted_at"] for one in shown["lifts"]] == [moment(desk.ledger.now_ms)]


async def test_a_lift_covers_what_has_no_usable_time_at_all(desk: Desk) -> None:
    await desk.says(1, "bounced", at_s=None)
    await desk.says(2, "complained", at_s=48 * HOUR_S)

    assert not (await desk.lifts())["suppressed"]


async def test_a_later_event_suppresses_again(desk: Desk) -> None:
    await desk.says(1, "bounced", at_s=-60)
    await desk.lifts()

    await desk.says(2, "bounced", at_s=60, reason="again")

    shown = await desk.sees()
    assert [cause["reason"] for cause in shown["causes"]] == ["again"]


async def test_a_late_arrival_that_was_stamped_before_the_lift_does_not(desk: Desk) -> None:
    await desk.says(1, "bounced", at_s=-60)
    await desk.lifts()

    await desk.says(2, "bounced", at_s=-30)
    # Of a cause that nobody had spoken of when the lift was made.
    await desk.says(3, "complained", at_s=-30)

    assert not (await desk.sees())["suppressed"]


async def test_copies_of_what_was_lifted_do_not_suppress_again(desk: Desk) -> None:
    await desk.says(1, "bounced", at_s=2 * HOUR_S)
    await desk.lifts()

    await desk.says(1, "bounced", at_s=2 * HOUR_S)

    assert not (await desk.sees())["suppressed"]


async def test_a_resubscribe_lifts_nothing_but_the_unsubscribe(desk: Desk) -> None:
    await desk.says(1, "bounced", at_s=-60)
    await desk.says(2, "unsubscribed", at_s=-50)

    await desk.says(3, "subscribed", at_s=-40)

    shown = await desk.sees()
    assert [cause["cause"] for cause in shown["causes"]] == ["hard"]
    [lift] = shown["lifts"]
    assert lift["by"] == "event"
    assert [(one["cause"], one["suppressed_at"]) for one in lift["causes"]] == [
        ("unsubscribe", moment((desk.now_s - 50) * 1000))
    ]


async def test_the_order_of_unsubscribe_and_resubscribe_is_their_own(desk: Desk) -> None:
    events = [("unsubscribed", -30), ("subscribed", -20), ("unsubscribed", -10)]

    shown = []
    for number, order in enumerate(permutations(range(3))):
        address = f"{number}@example.com"
        for index in order:
            word, at_s = events[index]
            await desk.says(f"{number}-{index}", word, at_s=at_s, recipient=address)
        one = await show_suppression(desk.ledger.database, "default", address)
        shown.append([cause["suppressed_at"] for cause in one["causes"]])

    assert shown == [[moment((desk.now_s - 10) * 1000)]] * 6


async def test_a_lift_of_one_cause_leaves_the_others(desk: Desk) -> None:
    await desk.says(1, "bounced", at_s=-60)
    await desk.says(2, "complained", at_s=-50)

    lifted = await desk.lifts(cause=Cause.HARD)

    assert [cause["cause"] for cause in lifted["causes"]] == ["complaint"]
    assert [one["cause"] for one in lifted["lifts"][0]["causes"]] == ["hard"]


async def test_a_lift_says_who_made_it_and_what_it_lifted(desk: Desk) -> None:
    await desk.says(1, "bounced", at_s=-60, reason="no such user")
    bob = ApiKey(
        id="key_1",
        workspace="default",
        name="bob2",
        scope=Scope.OPERATOR,
        digest=b"d",
        created_ms=1,
    )
    await desk.ledger.database.write(lambda tx: keys.put(tx, bob))

    await desk.lifts(by_key="key_1")
    await desk.suppresses(at_s=5, reason="asked by phone")
    await desk.lifts(at_s=10, by_key="key_of_another_workspace")

    second, first = (await desk.sees())["lifts"]
    assert (first["by_key"], first["by_key_name"]) == ("key_1", "bob2")
    assert [(one["cause"], one["reason"]) for one in first["causes"]] == [("hard", "no such user")]
    assert (second["by_key"], second["by_key_name"]) == ("key_of_another_workspace", None)
    assert [(one["cause"], one["reason"]) for one in second["causes"]] == [
        ("manual", "asked by phone")
    ]


async def test_a_lift_of_one_stream_leaves_the_others(desk: Desk) -> None:
    await desk.suppresses(stream="news")
    await desk.suppresses(stream="offers")

    lifted = await desk.lifts(stream="news", at_s=1)

    assert [cause["stream"] for cause in lifted["causes"]] == ["offers"]


async def test_a_suppression_by_hand_holds_until_it_is_lifted(desk: Desk) -> None:
    put = await desk.suppresses(reason="asked by phone")
    lifted = await desk.lifts(at_s=5)
    again = await desk.suppresses(at_s=10, reason="asked again")

    assert [cause["reason"] for cause in put["causes"]] == ["asked by phone"]
    assert put["causes"][0]["event"] is None
    assert not lifted["suppressed"]
    assert [cause["reason"] for cause in again["causes"]] == ["asked again"]
    assert len(again["lifts"]) == 1


async def test_a_suppression_by_hand_holds_even_when_the_clock_lags_behind_the_lift(
    desk: Desk,
) -> None:
    await desk.suppresses()
    await desk.lifts(at_s=30)

    assert (await desk.suppresses(at_s=-30))["suppressed"]


async def test_a_suppression_said_twice_is_one_with_the_newer_reason(desk: Desk) -> None:
    await desk.suppresses(reason="first")
    await desk.suppresses(at_s=1)
    shown = await desk.suppresses(at_s=2, reason="second")

    rows = await desk.ledger.database.read(lambda tx: store.of_address(tx, "default", ADA))
    assert len(rows) == 1
    assert [cause["reason"] for cause in shown["causes"]] == ["second"]


async def test_every_lift_stays_visible_newest_first(desk: Desk) -> None:
    await desk.suppresses()
    await desk.lifts(at_s=1)

    shown = await desk.lifts(at_s=2)

    assert [one["lifted_at"] for one in shown["lifts"]] == [
        moment((desk.now_s + 2) * 1000),
        moment((desk.now_s + 1) * 1000),
    ]


async def test_a_second_lift_covers_what_came_about_since_the_first(desk: Desk) -> None:
    """A bounce between the two lifts is reported late: whoever lifted last has the last word."""
    await desk.says(1, "bounced", at_s=-60)
    await desk.lifts(at_s=1)
    await desk.lifts(at_s=3)

    await desk.says(2, "bounced", at_s=2)

    assert not (await desk.sees())["suppressed"]


async def test_lifting_what_nobody_spoke_about_is_missing(desk: Desk) -> None:
    with pytest.raises(MissingError):
        await desk.lifts()


async def test_the_list_pages_by_address_and_never_splits_one(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "PAGE_ROWS_MAX", 4)
    for number in range(5):
        for index in range(1 + number * 2 % 7):
            await desk.says(
                f"{number}-{index}", "bounced", at_s=-index, recipient=f"{number}@example.com"
            )

    for limit in (1, 2, 5):
        addresses: list[str] = []
        cursor = None
        while True:
            page = await list_suppressions(
                desk.ledger.database, "default", page=PageQuery(limit, cursor)
            )
            assert len(page["data"]) <= limit
            addresses += [one["address"] for one in page["data"]]
            cursor = page["next"]
            if cursor is None:
                break

        assert addresses == [f"{number}@example.com" for number in range(5)]


async def test_the_list_can_leave_out_what_is_lifted(desk: Desk) -> None:
    await desk.says(1, "bounced", at_s=0, recipient="bob@example.com")
    await desk.suppresses()
    await desk.lifts(at_s=1)

    async def addresses(*, suppressed: bool | None) -> list[str]:
        page = await list_suppressions(
            desk.ledger.database, "default", page=PageQuery(10), suppressed=suppressed
        )
        return [one["address"] for one in page["data"]]

    assert await addresses(suppressed=None) == [ADA, "bob@example.com"]
    assert await addresses(suppressed=True) == ["bob@example.com"]
    assert await addresses(suppressed=False) == [ADA]


async def test_another_workspace_is_told_nothing_and_changes_nothing(desk: Desk) -> None:
    await desk.says(1, "bounced", at_s=-60)
    database = desk.ledger.database

    foreign = await show_suppression(database, "other", ADA)
    listed = await list_suppressions(database, "other", page=PageQuery(10))
    with pytest.raises(MissingError):
        await lift(database, "other", ADA, new_id=new_id(0), now_ms=desk.ledger.now_ms)

    assert not foreign["suppressed"]
    assert listed == {"data": [], "next": None}
    assert (await desk.sees())["suppressed"]


async def test_addresses_are_listed_by_when_they_were_suppressed_or_lifted(desk: Desk) -> None:
    for name, at_s in (("bob", -7200), ("cy", -60)):
        await desk.says(name, "bounced", at_s=at_s, recipient=f"{name}@example.com")
    await desk.says("ada", "bounced", at_s=-7200)
    await desk.lifts(at_s=-30)

    async def listed(suppressed: bool, **times: int) -> list[str]:  # noqa: FBT001
        page = await list_suppressions(
            desk.ledger.database, "default", PageQuery(10), suppressed=suppressed, **times
        )
        return [one["address"].partition("@")[0] for one in page["data"]]

    hour_ago = (desk.now_s - HOUR_S) * 1000
    assert await listed(True, since_ms=hour_ago) == ["cy"]
    assert await listed(True, until_ms=hour_ago) == ["bob"]
    assert await listed(False, since_ms=hour_ago) == ["ada"]
    assert await listed(False, until_ms=hour_ago) == []
