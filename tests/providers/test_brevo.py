"""Brevo: one event or a batch, and the answers that make it try again."""

from mailonce.core.events.event import EventType
from mailonce.core.events.suppression import statement_of
from tests.providers.cases import find, keys, parse, provider_of


def test_an_event_has_one_key_alone_in_a_batch_and_in_a_wrapped_batch() -> None:
    event = find("brevo", "soft_bounce").value

    alone = keys("brevo", event)

    assert keys("brevo", [event]) == alone
    assert keys("brevo", {"data": [event]}) == alone


def test_an_unreadable_element_costs_no_other() -> None:
    event = b'{"event":"delivered","email":"ann@example.net"}'

    parsed = parse("brevo", b"[" + event + b",{broken},5," + event + b"]")
    wrapped = parse("brevo", b'{"events":[' + event + b",5]}")

    assert len(parsed.events) == 2
    assert [(one.position, one.raw) for one in parsed.unreadable] == [
        (1, b"{broken}"),
        (2, b"5"),
    ]
    assert len(wrapped.events) == 1
    assert [(one.position, one.raw) for one in wrapped.unreadable] == [(1, b"5")]


def test_an_object_with_two_lists_is_no_batch() -> None:
    [event] = parse("brevo", {"tags": [], "list_id": [3]}).events

    assert event.type is EventType.OTHER


def test_opens_of_one_second_are_told_apart_by_client() -> None:
    open_ = find("brevo", "opened").value
    del open_["ts_epoch"]
    opens = [open_, {**open_, "user_agent": "another"}, {**open_, "ip": "192.0.2.9"}]

    assert len({one.key for one in keys("brevo", opens)}) == 3


def test_whoever_is_put_on_a_list_has_not_undone_leaving_all_mail() -> None:
    added, left = (
        parse("brevo", find("brevo", name).value).events[0]
        for name in ("list_addition", "unsubscribed")
    )

    lifts, leaves = statement_of(added), statement_of(left)

    assert lifts is not None
    assert leaves is not None
    assert lifts.stream != leaves.stream


def test_what_is_our_fault_is_answered_by_the_one_code_on_which_it_comes_again() -> None:
    codes = provider_of("brevo").codes

    assert (codes.later, codes.full) == (429, 429)
