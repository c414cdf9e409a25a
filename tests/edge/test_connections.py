"""The book of connections: who is let in, who makes room, and what all of them hold."""

import asyncio
from dataclasses import dataclass, field

import pytest
from prometheus_client import CollectorRegistry

from mailonce.edge.connections import ClientConnections, DoorRefusal
from mailonce.edge.http.client_limits import (
    CROWD,
    MAKE_ROOM,
    NO_ADDRESS,
    NO_CONNECTION,
    DoorLimits,
)
from mailonce.telemetry import DoorMetrics

Book = ClientConnections[DoorLimits]
LIMITS = DoorLimits(
    connections_max=16, address_connections_max=8, head_bytes_max=1024, headers_max=10,
    body_bytes_max=1024, api_body_bytes_max=1024, send_bytes_max=2048, held_bytes_max=1000,
    unread_bytes_max=1000,
    head_timeout_s=10, body_timeout_s=20, body_bytes_per_s_min=100, idle_timeout_s=75,
    answer_timeout_s=30,
)  # fmt: skip


@dataclass(eq=False)
class Client:
    """A connection as the book sees it."""

    all: Book
    address: str | None = "192.0.2.1"
    is_local: bool = False
    waiting_since: float = 0.0
    waits_for_client: bool = True
    half_read_bytes: int = 0
    end: list[DoorRefusal] = field(default_factory=list)

    def look(self, now: float) -> None:
        assert now >= 0

    def give_way(self, refusal: DoorRefusal) -> None:
        self.end.append(refusal)
        self.all.release(self.half_read_bytes)
        self.half_read_bytes = 0
        self.all.remove(self)


@pytest.fixture
def book() -> Book:
    return ClientConnections(LIMITS, DoorMetrics(CollectorRegistry()), CROWD, ("10.0.0.0/8",))


def clients(book: Book, count: int, **fields: object) -> list[Client]:
    return [Client(book, **fields) for _ in range(count)]  # type: ignore[arg-type]


def test_those_who_have_waited_longest_make_room_for_others(book: Book) -> None:
    waiting = [Client(book, f"192.0.2.{n}", waiting_since=float(n)) for n in range(16)]
    assert [book.admit(one, 1.0) for one in waiting] == [None] * 16

    assert book.admit(Client(book, "192.0.2.99"), 20.0) is None

    assert [one.end for one in waiting] == [[MAKE_ROOM]] * 2 + [[]] * 14


def test_where_nobody_waits_a_newcomer_is_refused(book: Book) -> None:
    busy = [Client(book, f"192.0.2.{n}", waits_for_client=False) for n in range(16)]
    assert [book.admit(one, 1.0) for one in busy] == [None] * 16

    assert book.admit(Client(book, "192.0.2.99"), 20.0) is NO_CONNECTION
    assert book.admit(Client(book, None, is_local=True), 20.0) is None, (
        "the operator always gets in"
    )
    assert not any(one.end for one in busy)


def test_one_address_makes_room_for_itself_alone(book: Book) -> None:
    other, same = Client(book, "192.0.2.2"), clients(book, 8)
    assert [book.admit(one, 0.5) for one in (other, *same)] == [None] * 9
    assert book.admit(Client(book), 0.5) is NO_ADDRESS, "all of them are new"

    book.look(5.0)

    assert book.admit(Client(book), 5.0) is None
    assert (other.end, sum(len(one.end) for one in same)) == ([], 1)


def test_a_proxy_of_ours_stands_for_many(book: Book) -> None:
    assert book.counts_for("10.1.2.3") is None
    assert book.counts_for("192.0.2.1") == "192.0.2.1"
    assert [book.admit(one, 0.5) for one in clients(book, 12, address=None)] == [None] * 12


def test_a_network_of_version_6_counts_as_one_client(book: Book) -> None:
    assert book.counts_for("2001:db8::1") == book.counts_for("2001:db8:0:0:ffff::9")
    assert book.counts_for("2001:db8::1") != book.counts_for("2001:db8:0:1::1")
    assert book.counts_for("::ffff:192.0.2.1") == book.counts_for("192.0.2.1")


def test_the_slowest_make_room_for_bytes_and_the_quick_do_not(book: Book) -> None:
    slow = Client(book, half_read_bytes=300, waiting_since=0.0)
    quick = Client(book, half_read_bytes=600, waiting_since=9.5)
    new = Client(book)
    for one in (slow, quick, new):
        book.admit(one, 10.0)
        assert book.hold(one, one.half_read_bytes, 10.0)

    assert book.hold(new, 200, 10.0)
    assert (slow.end, quick.end) == ([MAKE_ROOM], [])
    assert not book.hold(new, 900, 10.0)


@pytest.mark.parametrize(
    ("bytes_read", "seconds", "silent_s", "is_slow"),
    [(0, 19, 19, False), (0, 21, 21, True), (500, 24, 0, False), (500, 26, 0, True),
     (10**6, 60, 1, False), (10**6, 60, 21, True)],
)  # fmt: skip
def test_a_body_may_be_slow_or_silent_but_not_for_long(
    bytes_read: int, seconds: float, silent_s: float, is_slow: object
) -> None:
    assert LIMITS.is_slow(bytes_read, seconds, silent_s=silent_s) is is_slow


async def test_one_who_waits_again_and_again_gets_one_turn_at_a_time(book: Book) -> None:
    turns = 0

    def take() -> None:
        nonlocal turns
        turns += 1
        book.wait_turn(take)

    book.wait_turn(take)
    for _ in range(20):
        await asyncio.sleep(0)

    assert turns <= 20, "the event loop went round twenty times"


def test_whoever_has_left_an_answer_unread_for_longest_makes_room(book: Book) -> None:
    first, second, third = clients(book, 3)
    for client in (first, second):
        book.hold_unread(client, 400)
    book.release_unread(first)
    book.hold_unread(first, 400)

    book.hold_unread(third, 300)

    assert [one.end for one in (first, second, third)] == [[], [MAKE_ROOM], []]


def test_a_single_answer_is_sent_however_large(book: Book) -> None:
    large, small = clients(book, 2)
    book.hold_unread(large, 5_000)

    assert large.end == []

    book.hold_unread(small, 1)

    assert (large.end, small.end) == ([MAKE_ROOM], [])


def test_what_was_left_unread_by_one_who_has_gone_counts_no_more(book: Book) -> None:
    gone, second, third = clients(book, 3)
    book.hold_unread(gone, 900)
    book.remove(gone)

    for client in (second, third):
        book.hold_unread(client, 500)

    assert [one.end for one in (gone, second, third)] == [[], [], []]
