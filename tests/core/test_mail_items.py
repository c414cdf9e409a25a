"""What a mail claims: a copy is known in each of its layers, and inboxes share no key."""

from msgspec.structs import replace

from mailonce.core.inboxes.inbox import KnownInbox
from mailonce.core.inboxes.mail_items import (
    FETCH_LANES,
    LANES,
    NO_INBOX,
    BlobRow,
    DeliveryItem,
    MailItem,
    MailRow,
    lane_of,
    mail_items,
)
from mailonce.core.ledger.claim import FIRST, STANDS, CopyOf
from mailonce.core.ledger.entry import CopyRow
from mailonce.core.mail.incoming import FetchContent, IncomingMail, MailEnvelope, MimeContent
from mailonce.core.work.states import State
from tests.factories import make_body, make_entry, make_source, new_id

ANN = KnownInbox("inb_ann", "default", "ann@example.com")
BOB = KnownInbox("inb_bob", "default", "bob@example.com")


def make_mail(
    raw: bytes = b"Subject: hello\r\n\r\n", delivery_id: str | None = None
) -> IncomingMail:
    envelope = MailEnvelope(mail_from="x@y.z", recipients=("ann@example.com",), origin="smtp")
    return IncomingMail(envelope=envelope, content=MimeContent(raw), delivery_id=delivery_id)


def items_of(
    mail: IncomingMail, *inboxes: KnownInbox, account: str = "smtp/door"
) -> tuple[list[DeliveryItem], list[MailItem]]:
    items = mail_items("default", account, mail, inboxes, new_id=lambda: new_id(0))
    return (
        [one for one in items if isinstance(one, DeliveryItem)],
        [one for one in items if isinstance(one, MailItem)],
    )


def test_the_same_bytes_for_one_inbox_have_one_key() -> None:
    _, [mail] = items_of(make_mail(), ANN)
    _, [again] = items_of(make_mail(), ANN)

    assert mail.key == again.key
    assert mail.id != again.id


def test_a_mail_whose_delivery_has_no_id_claims_only_its_inboxes() -> None:
    deliveries, [ann, bob] = items_of(make_mail(), ANN, BOB)

    assert deliveries == []
    assert (ann.inbox, bob.inbox) == (ANN.id, BOB.id)


def test_other_bytes_and_other_inboxes_have_other_keys() -> None:
    _, [ann, bob] = items_of(make_mail(), ANN, BOB)
    _, [more] = items_of(make_mail(b"Subject: more\r\n\r\n"), ANN)

    assert len({ann.key, bob.key, more.key}) == 3
    assert ann.sha256 == bob.sha256


def test_a_providers_own_id_names_the_delivery_whatever_it_holds() -> None:
    [one], [mail] = items_of(make_mail(b"one", "d-1"), ANN, account="postmark/main")
    [other], [again] = items_of(make_mail(b"two", "d-1"), ANN, account="postmark/main")
    [elsewhere], _ = items_of(make_mail(b"one", "d-1"), ANN, account="postmark/other")

    assert one.key == other.key != elsewhere.key
    assert mail.key != again.key


def test_the_first_is_kept_and_owed_a_reading_and_a_copy_only_noted() -> None:
    entry = make_entry(make_source(), make_body(), now_ms=0)
    _, [mail] = items_of(make_mail(), ANN)

    blob, row = list(mail.rows(entry, FIRST))

    assert isinstance(blob, BlobRow)
    assert isinstance(row, MailRow)
    assert (blob.content, row.state, row.inbox) == (b"Subject: hello\r\n\r\n", State.DUE, ANN.id)
    assert row.digester == lane_of("mime", inbox=ANN.id, source=entry.source) in LANES
    [copy] = list(mail.rows(entry, CopyOf(b"owner")))
    assert isinstance(copy, CopyRow)
    assert (copy.arrival, copy.event) == (entry.id, b"owner")
    assert copy.position < 0, "where no event of the arrival stands"
    assert list(mail.rows(entry, STANDS)) == [blob, row]


def test_mail_to_be_fetched_has_the_lane_of_its_source_and_no_other_mail_has() -> None:
    entry = make_entry(make_source(), make_body(), now_ms=0)
    wanted = FetchContent(what="test.mail", arguments={})
    _, mails = items_of(replace(make_mail(), content=wanted), ANN, BOB)

    rows = [row for mail in mails for row in mail.rows(entry, FIRST) if isinstance(row, MailRow)]

    own = lane_of("fetch", inbox="", source=entry.source)
    assert [row.digester for row in rows] == [own, own]
    names = [f"n{number}" for number in range(200)]
    assert {lane_of("fetch", inbox=ANN.id, source=one) for one in names} == set(FETCH_LANES)
    assert {lane_of("fields", inbox=one, source=entry.source) for one in names} == set(LANES)
    assert set(LANES).isdisjoint(FETCH_LANES)


def test_copies_for_two_inboxes_are_told_apart() -> None:
    entry = make_entry(make_source(), make_body(), now_ms=0)
    _, mails = items_of(make_mail(), ANN, BOB)

    rows = [row for mail in mails for row in mail.rows(entry, CopyOf(b"owner"))]

    assert len({(row.arrival, row.position) for row in rows if isinstance(row, CopyRow)}) == 2


def test_mail_for_no_inbox_is_kept_and_not_read() -> None:
    entry = make_entry(make_source(), make_body(), now_ms=0)
    _, [mail] = items_of(make_mail())

    rows = list(mail.rows(entry, FIRST))

    assert isinstance(rows[1], MailRow)
    assert (rows[1].inbox, rows[1].state) == (NO_INBOX, State.DONE)
