"""What was read from a mail is kept once in its inbox, and every copy is noted as one."""

from dataclasses import replace

from mailonce.core.inboxes.mail_items import BlobRow
from mailonce.core.inboxes.message_items import DigestedRow, FetchedContent, MessageItem, MessageRow
from mailonce.core.ledger.claim import FIRST, CopyOf
from mailonce.core.ledger.entry import CopyRow
from tests.factories import make_body, make_entry, make_source, new_id


def make_item(id_: str = "msg_1", inbox: str = "inb_ann") -> MessageItem:
    row = MessageRow(id_, "default", inbox, 1, new_id(0), 0, "m@x", "", "mail", "", "", b"{}")
    return MessageItem(row, blobs=(BlobRow("default", b"hash", b"content"),))


def test_the_same_message_has_one_key_and_another_inbox_has_another() -> None:
    keys = [make_item().key, make_item().key, make_item(inbox="inb_bob").key, make_item("m").key]

    assert keys[0] == keys[1]
    assert len(set(keys)) == 3


def test_the_first_is_kept_and_a_copy_only_noted() -> None:
    entry = make_entry(make_source(), make_body(), now_ms=0)
    item = make_item()

    first, copy = list(item.rows(entry, FIRST)), list(item.rows(entry, CopyOf(b"owner")))

    assert first == [*item.blobs, item.row, DigestedRow(item.id, "msg_1")]
    noted, digested = copy
    assert isinstance(noted, CopyRow)
    assert (noted.event, digested) == (b"owner", DigestedRow(item.id, "msg_1"))
    assert list(item.shared_rows(entry)) == [("blobs", "default", b"hash")]


def test_what_was_fetched_takes_the_place_of_the_reference_in_first_and_copy() -> None:
    entry = make_entry(make_source(), make_body(), now_ms=0)
    item = replace(make_item(), fetched=FetchedContent(b"raw hash", "mime", b"raw"))

    first, copy = list(item.rows(entry, FIRST)), list(item.rows(entry, CopyOf(b"owner")))

    kept = [
        BlobRow("default", b"raw hash", b"raw"),
        DigestedRow(item.id, "msg_1", b"raw hash", "mime", 3),
    ]
    assert first[-2:] == copy[1:] == kept
    assert ("blobs", "default", b"raw hash") in list(item.shared_rows(entry))
