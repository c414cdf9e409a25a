"""A message as users see it."""

from itertools import permutations
from typing import Any

import pytest

from mailonce.core.query import EventFilter
from mailonce.errors import ClashError, MissingError
from mailonce.views.events import list_events
from mailonce.views.messages import show_message
from mailonce.views.paging import PageQuery
from tests.factories import Ledger, make_body, make_source

MAIN = make_source()
OTHER = make_source(id="src_other", name="other", account="other")
NOON = 1_767_268_800


async def show(
    ledger: Ledger,
    message_id: str = "m-1",
    *,
    source: str | None = None,
    recipient: str | None = None,
) -> Any:
    return await show_message(
        ledger.database, "default", message_id, source=source, recipient=recipient
    )


async def test_a_message_shows_status_facts_and_counts_by_recipient(ledger: Ledger) -> None:
    await ledger.add_source(MAIN)
    await ledger.tell(
        MAIN,
        [
            make_body(1, type="deferred", timestamp=NOON),
            make_body(2, type="delivered", timestamp=NOON + 60),
            make_body(3, type="opened", timestamp=NOON + 120),
            make_body(4, type="opened", timestamp=NOON + 180),
            make_body(5, type="bounced", bounce_type="hard", recipient="bob@example.com"),
        ],
    )

    message = await show(ledger)

    ada, bob = message["recipients"]
    assert (ada["recipient"], ada["status"], ada["engagement"]) == (
        "ada@example.com",
        "delivered",
        "opened",
    )
    assert ada["facts"]["opened"] == {
        "first": "2026-01-01T12:02:00.000Z",
        "last": "2026-01-01T12:03:00.000Z",
    }
    assert ada["counts"] == {"deferred": 1, "delivered": 1, "opened": 2}
    assert not ada["delivered_inferred"]
    assert [entry["type"] for entry in ada["timeline"]] == [
        "deferred",
        "delivered",
        "opened",
        "opened",
    ]
    assert (bob["status"], bob["engagement"]) == ("hard", None)
    assert bob["facts"]["bounced"]["classes"] == ["hard"]
    assert "message_facts" not in message
    assert not message["truncated"]


async def test_bounces_of_all_classes_are_one_type(ledger: Ledger) -> None:
    await ledger.tell(
        MAIN,
        [
            make_body(1, type="bounced", bounce_type="hard", timestamp=NOON + 9),
            make_body(2, type="bounced", bounce_type="soft", timestamp=NOON),
            make_body(3, type="bounced", bounce_type="blocked", timestamp=NOON + 5),
        ],
    )

    [ada] = (await show(ledger))["recipients"]

    assert ada["facts"]["bounced"] == {
        "first": "2026-01-01T12:00:00.000Z",
        "last": "2026-01-01T12:00:09.000Z",
        "classes": ["soft", "hard"],
    }
    assert ada["counts"] == {"bounced": 3}


@pytest.mark.parametrize("word", ["opened", "clicked", "complained", "unsubscribed"])
async def test_delivery_is_inferred_from_what_only_a_delivered_mail_can_cause(
    ledger: Ledger, word: str
) -> None:
    await ledger.tell(MAIN, [make_body(1, type=word)])

    [ada] = (await show(ledger))["recipients"]

    assert ada["delivered_inferred"]
    assert ada["status"] == ("complained" if word == "complained" else "delivered")
    assert "delivered" not in ada["facts"]


async def test_the_order_of_arrival_does_not_show(ledger: Ledger) -> None:
    words = ("delivered", "opened", "bounced")

    shown = []
    for number, order in enumerate(permutations(words)):
        bodies = [
            make_body(f"{number}-{word}", type=word, message_id=f"m-{number}", timestamp=NOON + at)
            for word, at in sorted(
                zip(words, (0, 10, 20), strict=True), key=lambda x: order.index(x[0])
            )
        ]
        await ledger.tell(MAIN, [*bodies, bodies[0]])
        [ada] = (await show(ledger, f"m-{number}"))["recipients"]
        timeline = [(entry["type"], entry["occurred_at"]) for entry in ada["timeline"]]
        shown.append((ada["status"], ada["facts"], ada["counts"], timeline))

    assert all(one == shown[0] for one in shown)


async def test_what_names_no_recipient_is_told_of_the_message(ledger: Ledger) -> None:
    await ledger.tell(MAIN, [make_body(1, type="accepted", recipient=None), make_body(2)])

    message = await show(ledger)

    assert message["message_facts"]["status"] == "accepted"
    assert [one["recipient"] for one in message["recipients"]] == ["ada@example.com"]
    assert len(message["message_facts"]["timeline"]) == 1


async def test_one_recipient_can_be_asked_for(ledger: Ledger) -> None:
    await ledger.tell(MAIN, [make_body(1), make_body(2, recipient="bob@example.com")])

    message = await show(ledger, recipient="bob@example.com")

    assert [one["recipient"] for one in message["recipients"]] == ["bob@example.com"]


async def test_two_accounts_with_one_message_id_must_be_told_apart(ledger: Ledger) -> None:
    await ledger.add_source(MAIN)
    await ledger.add_source(OTHER)
    await ledger.tell(MAIN, [make_body(1)])
    await ledger.tell(OTHER, [make_body(1, type="bounced", bounce_type="hard")])

    with pytest.raises(ClashError, match="main, other"):
        await show(ledger)
    for source, status in (("main", "delivered"), ("src_other", "hard")):
        [ada] = (await show(ledger, source=source))["recipients"]

        assert ada["status"] == status
        assert len(ada["timeline"]) == 1


async def test_two_sources_of_one_account_share_a_message(ledger: Ledger) -> None:
    twin = make_source(id="src_twin", name="twin")
    await ledger.add_source(MAIN)
    await ledger.add_source(twin)
    await ledger.tell(MAIN, [make_body(1)])
    await ledger.tell(twin, [make_body(1), make_body(2, type="opened")])

    [ada] = (await show(ledger))["recipients"]

    assert ada["counts"] == {"delivered": 1, "opened": 1}
    assert [entry["copies"] for entry in ada["timeline"]] == [1, 0]


async def test_other_content_under_a_known_key_is_marked_in_the_timeline(ledger: Ledger) -> None:
    await ledger.tell(MAIN, [make_body(1), make_body(1, type="bounced", bounce_type="hard")])

    [ada] = (await show(ledger))["recipients"]

    assert ada["status"] == "hard"
    assert ada["counts"] == {"bounced": 0, "delivered": 1}
    kept, other = sorted(ada["timeline"], key=lambda entry: entry["type"], reverse=True)
    assert kept["conflict_with"] is None
    assert other["conflict_with"] == kept["id"]


async def test_an_unknown_message_and_a_foreign_one_are_missing(ledger: Ledger) -> None:
    await ledger.add_source(MAIN)
    await ledger.tell(MAIN, [make_body(1)])

    with pytest.raises(MissingError):
        await show(ledger, "m-2")
    with pytest.raises(MissingError):
        await show(ledger, source="nobody")
    with pytest.raises(MissingError):
        await show_message(ledger.database, "other", "m-1")


@pytest.mark.parametrize(
    ("stored", "asked"), [("m-1@x.test", "<m-1@x.test>"), ("<m-1@x.test>", "m-1@x.test")]
)
async def test_a_message_is_found_with_and_without_angle_brackets(
    ledger: Ledger, stored: str, asked: str
) -> None:
    """A send API returns its id in brackets where the events have none, or the other way round."""
    await ledger.add_source(MAIN)
    await ledger.tell(MAIN, [make_body(1, type="delivered", message_id=stored)])

    shown = [await show(ledger, one) for one in (stored, asked)]
    listed = [
        await list_events(
            ledger.database, "default", EventFilter(message_id=one), page=PageQuery(10)
        )
        for one in (stored, asked)
    ]

    assert [one["message_id"] for one in shown] == [stored, stored]
    assert [len(one["data"]) for one in listed] == [1, 1]


async def test_an_id_as_it_was_asked_for_goes_first(ledger: Ledger) -> None:
    await ledger.add_source(MAIN)
    bodies = [
        make_body(1, type="delivered", message_id="m-1"),
        make_body(2, type="bounced", message_id="<m-1>"),
    ]
    await ledger.tell(MAIN, bodies)

    plain, bracketed = await show(ledger, "m-1"), await show(ledger, "<m-1>")

    assert (plain["message_id"], bracketed["message_id"]) == ("m-1", "<m-1>")


async def test_a_source_is_asked_for_its_own_spelling(ledger: Ledger) -> None:
    """Two providers may write one id in two ways; each has its own message under it."""
    await ledger.add_source(MAIN)
    await ledger.add_source(OTHER)
    await ledger.tell(MAIN, [make_body(1, type="delivered", message_id="m-1")])
    await ledger.tell(OTHER, [make_body(2, type="bounced", message_id="<m-1>")])

    shown = await show(ledger, "m-1", source="other")
    listed = await list_events(
        ledger.database,
        "default",
        EventFilter(message_id="m-1", source="other"),
        page=PageQuery(10),
    )

    assert shown["message_id"] == "<m-1>"
    assert [one["type"] for one in listed["data"]] == ["bounced"]
