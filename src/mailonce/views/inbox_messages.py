"""Messages of inboxes as users see them: all of it for operators, a cleaned text for readers."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from mailonce.core.access import WRITES, Caller
from mailonce.core.inboxes.inbox import Inbox
from mailonce.core.mail.address import read_address
from mailonce.core.mail.incoming import ContentFormat
from mailonce.core.mail.message_ids import read_message_id
from mailonce.core.mail.reader_view import reader_view
from mailonce.core.moment import moment
from mailonce.errors import GoneError, MissingError, RefusedError
from mailonce.store.dialects.contract import Database, Tx
from mailonce.store.inboxes import inboxes, messages
from mailonce.store.inboxes.messages import StoredFile, StoredMessage
from mailonce.store.inboxes.refusals import RefusedMail
from mailonce.store.ledger import messages as ledger
from mailonce.views.files import plain_type
from mailonce.views.inboxes import refused_json

# One Message-ID may stand for several mails, and each of them may be in several inboxes.
SAME_MESSAGE_ID_MAX = 20
# A database counts no further.
SEQ_DIGITS_MAX = 18
# Of messages in inboxes alone.
MESSAGE_PREFIX = "msg_"
RAW_TYPES = {ContentFormat.MIME: ("message/rfc822", "eml")}
OTHER_RAW = ("application/json", "json")


async def show_messages(caller: Caller, rows: Sequence[StoredMessage]) -> list[orjson.Fragment]:
    """Write messages as the caller may see them."""
    if caller.scope in WRITES:
        return [orjson.Fragment(row.document) for row in rows]
    # Reading the HTML of a page takes a while, and the server has others to answer.
    return await asyncio.to_thread(lambda: [_for_reader(row) for row in rows])


def page_json(
    shown: Sequence[orjson.Fragment],
    *,
    next_: int,
    unread: int,
    copies: Mapping[str, int],
    listening_since_ms: int | None,
    refused: Sequence[RefusedMail],
) -> bytes:
    """Write messages, where to go on, and what proves that there were no others."""
    return orjson.dumps(
        {
            "data": list(shown),
            "next": next_,
            "unread": unread,
            "copies": dict(copies),
            "listening_since": moment(listening_since_ms),
            "refused": [refused_json(row) for row in refused],
        }
    )


async def message_id_of(database: Database, inbox: Inbox, name: str) -> str:
    """Give the id of a message that is named by it, or by its number in the inbox.

    Raises: MissingError where the inbox has no such message, GoneError where it was deleted.
    """
    is_number = name.isascii() and name.isdecimal() and len(name) <= SEQ_DIGITS_MAX

    def work(tx: Tx) -> str | RefusedError:
        if is_number:
            id_ = messages.id_of(tx, inbox.id, seq=int(name))
            was_there = id_ is None and inboxes.is_deleted(tx, inbox.id, seq=int(name))
        else:
            id_ = name if messages.exists(tx, inbox.workspace, name) else None
            # The event that it came is kept. Mail that was sent has events, but no such id.
            is_ours = id_ is None and name.startswith(MESSAGE_PREFIX)
            was_there = is_ours and bool(ledger.accounts_of(tx, inbox.workspace, name))
        if was_there:
            return GoneError(
                f"message {name[:80]!r} of this inbox was deleted; what is known of it still: "
                "GET /v1/events"
            )
        return id_ or _missing(name)

    answer = await database.read(work)
    if isinstance(answer, RefusedError):
        raise answer
    return answer


async def show_message(database: Database, caller: Caller, inbox: str, message: str) -> bytes:
    """Show one message, and in `copies` how often the same mail came again.

    Raises: MissingError.
    """

    def work(tx: Tx) -> tuple[StoredMessage | None, int]:
        return messages.get(tx, inbox, message), messages.copies_of(tx, inbox, message)

    row, copies = await database.read(work)
    if row is None:
        raise _missing(message)
    [shown] = await show_messages(caller, [row])
    # It is no part of the document, which is written once.
    return orjson.dumps({**orjson.loads(orjson.dumps(shown)), "copies": copies})


async def known_message(database: Database, workspace: str, id_: str) -> dict[str, Any] | None:
    """Give a message by our id of it, in whatever inbox; None where it was deleted."""
    row = await database.read(lambda tx: messages.of_id(tx, workspace, id_))
    return None if row is None else orjson.loads(row.document)


async def find_message(
    database: Database, workspace: str, message_id: str, recipient: str
) -> dict[str, Any] | None:
    """Find the message of the mail with this Message-ID for a recipient.

    None where no inbox has it, or several have it and nobody says which is meant.
    """
    name = read_message_id(message_id)
    if name is None:
        return None
    rows = await database.read(
        lambda tx: messages.of_mail(tx, workspace, name, most=SAME_MESSAGE_ID_MAX)
    )
    documents: list[dict[str, Any]] = [orjson.loads(row.document) for row in rows]
    address = read_address(recipient)
    if address is not None:
        documents = [one for one in documents if read_address(one["address"]) == address]
    return documents[0] if len(documents) == 1 else None


async def raw_mail(database: Database, inbox: str, message: str) -> StoredFile:
    """Give the bytes of the mail that a message was read from, with a name and a type.

    Raises: MissingError.
    """
    file = await database.read(lambda tx: messages.raw(tx, inbox, message))
    if file is None:
        raise _missing(message)
    return _named(file)


async def unread_mail(database: Database, workspace: str, key: bytes) -> StoredFile:
    """Give the bytes of a mail, whether or not an inbox took it.

    Raises: MissingError.
    """
    file = await database.read(lambda tx: messages.mail_bytes(tx, workspace, key))
    if file is None:
        raise MissingError("there is no such mail; see GET /v1/unmatched")
    return _named(file)


async def attachment(
    database: Database, inbox: str, message: str, attachment_id: str
) -> StoredFile:
    """Give an attachment, with a type that a header can hold.

    Raises: MissingError.
    """
    file = await database.read(lambda tx: messages.attachment(tx, inbox, message, attachment_id))
    if file is None:
        raise MissingError(f"there is no attachment {attachment_id[:80]!r} of this message")
    return file._replace(type=plain_type(file.type))


def _named(file: StoredFile) -> StoredFile:
    """Name a mail's bytes: MIME, or the JSON of what a provider handed over instead."""
    type_, ending = RAW_TYPES.get(ContentFormat(file.type), OTHER_RAW)
    return file._replace(type=type_, name=f"{file.name}.{ending}")


def _for_reader(row: StoredMessage) -> orjson.Fragment:
    document: dict[str, Any] = orjson.loads(row.document)
    return orjson.Fragment(orjson.dumps(reader_view(document)))


def _missing(message: str) -> MissingError:
    return MissingError(f"there is no message {message[:80]!r} in this inbox")
