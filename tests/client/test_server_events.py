"""Events are the same in whatever pieces they come; comments are none."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mailonce.client.server_events import ServerEvent, ServerEventReader

RAW = (
    'retry: 2000\n\n: heartbeat\n\nevent: message\nid: 7\ndata: {"a":\ndata: "é"}\n\n'
    "event: lost\nid: 9\ndata: {}\n\n"
).encode()
EVENTS = [ServerEvent("message", "7", '{"a":\n"é"}'), ServerEvent("lost", "9", "{}")]


@given(st.lists(st.integers(0, 100), max_size=8))
def test_events_are_the_same_in_any_pieces(cuts: list[int]) -> None:
    places = sorted({0, len(RAW), *(cut for cut in cuts if cut < len(RAW))})
    reader = ServerEventReader()

    events = [event for a, b in pairwise(places) for event in reader.feed(RAW[a:b])]

    assert events == EVENTS


def test_lines_may_end_in_crlf() -> None:
    assert ServerEventReader().feed(RAW.replace(b"\n", b"\r\n")) == EVENTS
