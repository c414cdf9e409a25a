"""What the log keeps of an event beside its columns, and what an index can hold."""

from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.events.event import (
    MESSAGE_ID_BYTES_MAX,
    RECIPIENT_BYTES_MAX,
    Event,
    EventType,
    Reject,
    detail_of,
    fitted,
)
from mailonce.core.events.key import WHOLE, Identity

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=900)


def event(message_id: str = "", recipient: str = "") -> Event:
    return Event(
        type=EventType.OPENED,
        identity=Identity(WHOLE, {}),
        message_id=message_id,
        recipient=recipient,
    )


def test_what_says_nothing_is_left_out() -> None:
    assert detail_of(event()) == {}


def test_everything_that_says_something_is_kept() -> None:
    event = Event(
        type=EventType.REJECTED, identity=Identity(WHOLE, {}), provider_event_id="e", reason="r",
        url="u", user_agent="a", ip="i", machine=False, reject=Reject.QUOTA, tags=("t",),
        metadata={"m": 1}, stream="s", late=True, certain=False,
    )  # fmt: skip

    assert detail_of(event) == {
        "provider_event_id": "e", "reason": "r", "url": "u", "user_agent": "a", "ip": "i",
        "machine": False, "reject": "quota", "tags": ["t"], "metadata": {"m": 1}, "stream": "s",
        "late": True, "certain": False,
    }  # fmt: skip


@given(message_id=texts, recipient=texts)
def test_an_index_can_hold_every_event_and_what_is_short_stays(
    message_id: str, recipient: str
) -> None:
    made = fitted(event(message_id, recipient))

    assert len(made.message_id.encode()) <= MESSAGE_ID_BYTES_MAX
    assert len(made.recipient.encode()) <= RECIPIENT_BYTES_MAX
    if len(message_id.encode()) <= MESSAGE_ID_BYTES_MAX:
        assert made.message_id == message_id
    assert fitted(made) == made


def test_long_ids_that_differ_at_their_end_stay_apart() -> None:
    long = "x" * MESSAGE_ID_BYTES_MAX

    assert fitted(event(long + "a")).message_id != fitted(event(long + "b")).message_id
