"""Messages of inboxes, the mail that they were read from, and attachments."""

from collections.abc import Iterator, Mapping, Sequence
from string import ascii_lowercase, ascii_uppercase
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, func, or_, select, update

from mailonce.core.expectations.expectation import FINAL
from mailonce.core.inboxes.mail_items import lane_of
from mailonce.core.query import MessageFilter
from mailonce.core.reading.values import address_of
from mailonce.core.work.states import State
from mailonce.store.days import days_of
from mailonce.store.ledger import copies
from mailonce.store.schema.expectation_tables import EXPECTATIONS
from mailonce.store.schema.mail_tables import ATTACHMENTS, BLOBS, MAILS, MESSAGES

_M, _MAIL, _B = MESSAGES.c, MAILS.c, BLOBS.c
_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
EVERY = MessageFilter()


class MailToRead(NamedTuple):
    """A mail whose reading is owed."""

    key: bytes
    workspace: str
    inbox: str
    seq: int | None
    address: str
    source: str
    account: str
    made_ms: int
    sha256: bytes
    format: str
    facts: bytes
    message: str | None
    content: bytes | None
    # Whether an expectation of its inbox was open when this was looked at.
    is_expected: bool = False


class StoredMessage(NamedTuple):
    """A message as it is shown, and its place in the inbox."""

    id: str
    seq: int
    document: bytes


class ThreadMessage(NamedTuple):
    """A message of a conversation, in whichever inbox it is."""

    id: str
    inbox: str
    mail: bytes
    accepted_ms: int
    message_id: str
    sender: str
    subject: str
    document: bytes


_THREAD = [_M[name] for name in ThreadMessage._fields]


class MessagePage(NamedTuple):
    """Messages in the order of their inbox, and the number up to which it was read."""

    messages: list[StoredMessage]
    last: int
    # How often the same mail came again, by message; absent where it did not.
    copies: Mapping[str, int]


class StoredFile(NamedTuple):
    """The bytes of a mail or of an attachment."""

    name: str
    type: str
    content: bytes


def mail(tx: Connection, key: bytes) -> MailToRead | None:
    """Give a mail with its content; None where it was deleted."""
    content = and_(_B.workspace == _MAIL.workspace, _B.sha256 == _MAIL.sha256)
    columns = [_MAIL[name] for name in MailToRead._fields if name in _MAIL]
    of = EXPECTATIONS.c
    is_open = (of.inbox == _MAIL.inbox, of.state.not_in(sorted(FINAL)))
    expected = select(of.id).where(*is_open).exists()
    query = (
        select(*columns, _B.content, expected)
        .join(BLOBS, content, isouter=True)
        .where(_MAIL.key == key)
    )
    row = tx.execute(query).first()
    return None if row is None else MailToRead._make(row)


def move(tx: Connection, mail: MailToRead, token: int) -> None:
    """Put a mail that is on lease into its own lane, in which it is due once the lease is over."""
    own = lane_of(mail.format, inbox=mail.inbox, source=mail.source)
    leased = and_(_MAIL.key == mail.key, _MAIL.token == token, _MAIL.state == State.LEASED)
    tx.execute(update(MAILS).where(leased).values(digester=own))


def of_thread(
    tx: Connection, workspace: str, thread: str, *, mails: Sequence[bytes], limit: int
) -> list[ThreadMessage]:
    """List the first messages of a conversation, and those that were read from these mails."""
    columns = [_M[name] for name in ThreadMessage._fields]
    own = select(*columns).where(_M.workspace == workspace, _M.thread == thread, _M.thread != "")
    rows = tx.execute(own.order_by(_M.accepted_ms, _M.id).limit(limit)).all()
    if mails:
        ids = select(_MAIL.message).where(_MAIL.key.in_(mails[:limit]), _MAIL.message.is_not(None))
        named = list(tx.scalars(ids))
        more = select(*columns).where(_M.workspace == workspace, _M.id.in_(named))
        rows = [*rows, *tx.execute(more)]
    by_id = {row.id: ThreadMessage(*row) for row in rows}
    return [one._replace(mail=bytes(one.mail)) for one in by_id.values()]


def of_mail_key(tx: Connection, workspace: str, key: bytes) -> list[ThreadMessage]:
    """List the message that was read from a mail; none before that, or where it was deleted."""
    message = select(_MAIL.message).where(_MAIL.key == key, _MAIL.workspace == workspace)
    query = select(*_THREAD).where(_M.workspace == workspace, _M.id.in_(message))
    return [ThreadMessage(*row) for row in tx.execute(query)]


def of_any_id(tx: Connection, workspace: str, name: str, *, most: int) -> list[ThreadMessage]:
    """List messages by our id, or by the Message-ID of their mail, the newest first."""
    query = select(*_THREAD).where(_M.workspace == workspace)
    named = (_M.message_id == name, _M.message_id != "")
    rows = tx.execute(query.where(_M.id == name)).all() or tx.execute(
        query.where(*named).order_by(_M.accepted_ms.desc(), _M.id).limit(most)
    )
    return [ThreadMessage(*row) for row in rows]


def page(
    tx: Connection,
    inbox: str,
    *,
    after: int,
    until: int,
    limit: int,
    bytes_max: int,
    which: MessageFilter = EVERY,
) -> MessagePage:
    """List messages of an inbox behind a number, in its order, within a bound of rows and bytes.

    The first is given however large it is, or a reader would never get behind it.
    """
    behind = (_M.inbox == inbox, _M.seq > after, *_conditions(which))
    sizes = select(_M.seq, func.length(_M.document), _M.mail)
    rows = tx.execute(sizes.where(*behind, _M.seq <= until).order_by(_M.seq).limit(limit)).all()
    last, size = after, 0
    for seq, document_bytes, _ in rows:
        size += document_bytes
        if last > after and size > bytes_max:
            break
        last = seq
    else:
        if len(rows) < limit:
            last = max(last, until)
    if not rows:
        return MessagePage([], last, {})
    # None of their copies came on a day before the first of them.
    first_day, _ = days_of(min(bytes(mail) for _, _, mail in rows))
    again = copies.times_of(_M.mail, first_day=first_day)
    query = select(_M.id, _M.seq, _M.document, again)
    shown = tx.execute(query.where(*behind, _M.seq <= last).order_by(_M.seq)).all()
    repeats = {row[0]: row[3] for row in shown if row[3]}
    return MessagePage([StoredMessage(*row[:3]) for row in shown], last, repeats)


def _conditions(which: MessageFilter) -> Iterator[ColumnElement[bool]]:
    if which.sender is not None:
        sender = which.sender.lower()
        is_domain = sender.startswith("@")
        # A mail may write a domain in its own script, or as DNS has it.
        spellings = sorted({sender, address_of(sender)})
        ends = (_M.sender.endswith(one, autoescape=True) for one in spellings)
        yield or_(*ends) if is_domain else _M.sender.in_(spellings)
    if which.subject is not None:
        # Both databases lower the letters of ASCII alone.
        words = which.subject.translate(_LOWER)
        yield func.lower(_M.subject).contains(words, autoescape=True)
    if which.since_ms is not None:
        yield _M.accepted_ms >= which.since_ms
    if which.until_ms is not None:
        yield _M.accepted_ms < which.until_ms


def received_ms(tx: Connection, inbox: str, *, seq: int) -> int | None:
    """Say when the last message up to a number was received; None where there is none."""
    query = select(_M.accepted_ms).where(_M.inbox == inbox, _M.seq <= seq)
    return tx.scalar(query.order_by(_M.seq.desc()).limit(1))


def get(tx: Connection, inbox: str, message: str) -> StoredMessage | None:
    query = select(_M.id, _M.seq, _M.document).where(_M.inbox == inbox, _M.id == message)
    row = tx.execute(query).first()
    return None if row is None else StoredMessage(*row)


def copies_of(tx: Connection, inbox: str, message: str) -> int:
    """Count how often the mail of a message came again."""
    mail = tx.scalar(select(_M.mail).where(_M.inbox == inbox, _M.id == message))
    return 0 if mail is None else copies.of_mails(tx, [bytes(mail)]).get(bytes(mail), 0)


def id_of(tx: Connection, inbox: str, *, seq: int) -> str | None:
    """Give the id of the message with a number."""
    return tx.scalar(select(_M.id).where(_M.inbox == inbox, _M.seq == seq))


def exists(tx: Connection, workspace: str, message: str) -> bool:
    """Say whether a message is there, in whatever inbox."""
    query = select(_M.id).where(_M.id == message, _M.workspace == workspace)
    return tx.scalar(query) is not None


def of_id(tx: Connection, workspace: str, message: str) -> StoredMessage | None:
    """Give a message, in whatever inbox."""
    query = select(_M.id, _M.seq, _M.document).where(_M.id == message, _M.workspace == workspace)
    row = tx.execute(query).first()
    return None if row is None else StoredMessage(*row)


def of_mail(tx: Connection, workspace: str, name: str, *, most: int) -> list[StoredMessage]:
    """List messages by the Message-ID of their mail, the newest first."""
    named = (_M.workspace == workspace, _M.message_id == name, _M.message_id != "")
    query = select(_M.id, _M.seq, _M.document).where(*named)
    rows = tx.execute(query.order_by(_M.accepted_ms.desc(), _M.id).limit(most))
    return [StoredMessage(*row) for row in rows]


def mail_bytes(tx: Connection, workspace: str, key: bytes) -> StoredFile | None:
    """Give the bytes of a mail, whatever became of it."""
    query = (
        select(_MAIL.format, _B.content)
        .join(BLOBS, and_(_B.workspace == _MAIL.workspace, _B.sha256 == _MAIL.sha256))
        .where(_MAIL.workspace == workspace, _MAIL.key == key)
    )
    row = tx.execute(query).first()
    return None if row is None else StoredFile(key.hex(), row[0], bytes(row[1]))


def raw(tx: Connection, inbox: str, message: str) -> StoredFile | None:
    """Give the bytes of the mail that a message was read from."""
    query = (
        select(_MAIL.format, _B.content)
        .join(MESSAGES, _M.mail == _MAIL.key)
        .join(BLOBS, and_(_B.workspace == _MAIL.workspace, _B.sha256 == _MAIL.sha256))
        .where(_M.inbox == inbox, _M.id == message)
    )
    row = tx.execute(query).first()
    return None if row is None else StoredFile(message, row[0], bytes(row[1]))


def attachment(tx: Connection, inbox: str, message: str, attachment_id: str) -> StoredFile | None:
    of = ATTACHMENTS.c
    query = (
        select(of.name, of.type, _B.content)
        .join(MESSAGES, _M.id == of.message)
        .join(BLOBS, and_(_B.workspace == of.workspace, _B.sha256 == of.sha256))
        .where(_M.inbox == inbox, of.message == message, of.id == attachment_id)
    )
    row = tx.execute(query).first()
    return None if row is None else StoredFile(row[0], row[1], bytes(row[2]))


def file(tx: Connection, workspace: str, message: str, attachment_id: str) -> StoredFile | None:
    """Give an attachment of a message, in whatever inbox it is."""
    of = ATTACHMENTS.c
    query = (
        select(of.name, of.type, _B.content)
        .join(BLOBS, and_(_B.workspace == of.workspace, _B.sha256 == of.sha256))
        .where(of.workspace == workspace, of.message == message, of.id == attachment_id)
    )
    row = tx.execute(query).first()
    return None if row is None else StoredFile(row[0], row[1], bytes(row[2]))


def newest(tx: Connection, inboxes: Sequence[str]) -> dict[str, int]:
    """Give the number of the last message of each inbox that has one."""
    query = select(_M.inbox, func.max(_M.seq)).where(_M.inbox.in_(inboxes)).group_by(_M.inbox)
    return {row[0]: row[1] for row in tx.execute(query)}
