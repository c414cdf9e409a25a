"""Sends as a noun: the first is written with its content, all others only hear what they are."""

from mailonce.core.events.key import Fingerprint, Key
from mailonce.core.ids import ArrivalId
from mailonce.core.ledger.claim import FIRST, ConflictWith, CopyOf
from mailonce.core.ledger.entry import Entry
from mailonce.core.sends.send_item import ContentRow, RequestRow, SendItem, SendRow

ROW = SendRow(
    Key(b"k"), b"i", "default", "snr_1", b"c", 0, 0, 0, 0, 0, 0, "k", Fingerprint(b"f"), b"{}",
    "a@b", "A@b", "", "", None, None, None, None, is_forced=False,
)  # fmt: skip
CONTENT = ContentRow(b"c", "default", b"body")
REQUEST = RequestRow(Key(b"r"), "default", Fingerprint(b"f"))
ENTRY = Entry(
    id=ArrivalId(b"e"), workspace="default", source="", account="", arrival_key="", body=b"",
    headers=b"",
    signs_body=False, events=(),
)  # fmt: skip


def test_only_the_first_is_written() -> None:
    item = SendItem(ROW, CONTENT, REQUEST)

    assert (item.id, item.key, item.fingerprint) == (b"i", b"k", b"f")
    assert list(item.rows(ENTRY, FIRST)) == [ROW, CONTENT, REQUEST]
    assert list(SendItem(ROW, CONTENT).rows(ENTRY, FIRST)) == [ROW, CONTENT]
    assert list(item.rows(ENTRY, CopyOf(b"o"))) == []
    assert list(item.rows(ENTRY, ConflictWith(b"o"))) == []
    assert list(item.shared_rows(ENTRY)) == []
