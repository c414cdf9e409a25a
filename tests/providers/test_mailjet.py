"""Mailjet: an array or a bare event."""

from tests.providers.cases import find, keys, parse


def test_an_event_has_one_key_grouped_or_bare() -> None:
    [event] = find("mailjet", "open").value

    assert keys("mailjet", event) == keys("mailjet", [event])


def test_opens_of_one_second_by_different_clients_are_two() -> None:
    [open_] = find("mailjet", "open").value
    opens = [open_, {**open_, "agent": "another"}, {**open_, "ip": "192.0.2.9"}, open_]

    assert len({one.key for one in keys("mailjet", opens)}) == 3


def test_message_ids_above_53_bits_are_kept_to_the_last_digit() -> None:
    [event] = find("mailjet", "sent").value

    [one, other] = parse("mailjet", [event, {**event, "MessageID": 20547674933128002}]).events

    assert (one.message_id, other.message_id) == ("20547674933128001", "20547674933128002")


def test_an_unreadable_element_costs_no_other() -> None:
    event = b'{"event":"sent","email":"ann@example.net"}'

    parsed = parse("mailjet", b"[" + event + b",[],{broken}," + event + b"]")

    assert len(parsed.events) == 2
    assert [(one.position, one.raw) for one in parsed.unreadable] == [
        (1, b"[]"),
        (2, b"{broken}"),
    ]
