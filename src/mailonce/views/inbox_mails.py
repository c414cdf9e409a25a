"""The copies of a mail in inboxes, found by any id of it."""

import re
from collections.abc import Sequence
from typing import Any

import orjson
from typing_extensions import TypedDict

from mailonce.core.ids import private
from mailonce.core.inboxes.mail_items import MAIL_PREFIX
from mailonce.core.ledger.entry import FactRow
from mailonce.core.mail.address import read_address
from mailonce.core.mail.message_ids import read_message_id
from mailonce.core.moment import moment
from mailonce.store.dialects.contract import Tx
from mailonce.store.inboxes import messages as inbox_messages
from mailonce.store.inboxes.messages import ThreadMessage
from mailonce.store.ledger import events, messages
from mailonce.store.ledger.events import LoggedEvent

# One Message-ID may stand for several mails, and each of them may be in several inboxes.
MAILS_MAX = 20
# Of the mails of one Message-ID.
FACT_ROWS_MAX = 1_000


_MAIL_ID = re.compile(rf"{MAIL_PREFIX}_[0-9a-f]{{32}}")


class InboxMailJson(TypedDict):
    """Where a mail is: the inbox, its number there, and its own id."""

    id: str
    inbox: str
    address: str
    seq: int
    from_address: str
    subject: str
    received_at: str


def find_mails(
    tx: Tx, workspace: str, message_id: str, recipient: str | None
) -> list[ThreadMessage]:
    """List the messages in inboxes that have this id: ours, their mail's, or that of its header."""
    name = read_message_id(message_id)
    if name is None:
        return []
    if _MAIL_ID.fullmatch(name):
        mails = inbox_messages.of_mail_key(tx, workspace, private(MAIL_PREFIX, name))
    else:
        mails = inbox_messages.of_any_id(tx, workspace, name, most=MAILS_MAX)
    return [one for one in mails if recipient is None or _is_to(one, recipient)]


def events_of_mails(tx: Tx, workspace: str, mails: Sequence[ThreadMessage]) -> list[LoggedEvent]:
    """List the events that say that these mails came, while they are kept."""
    return [row for one in mails for row in events.of_arrival(tx, workspace, one.mail)]


def facts_of_events(tx: Tx, workspace: str, log: Sequence[LoggedEvent]) -> list[FactRow]:
    """List the facts of the messages that events are about, by recipient."""
    whose = dict.fromkeys((row.message_id, row.account, row.recipient) for row in log)
    facts = [
        fact
        for message_id, account, recipient in whose
        for fact in messages.facts_of(
            tx, workspace, message_id, account=account, recipient=recipient, limit=FACT_ROWS_MAX
        )
    ]
    return sorted(facts, key=lambda fact: fact.recipient)


def mail_json(mail: ThreadMessage) -> InboxMailJson:
    document: dict[str, Any] = orjson.loads(mail.document)
    return {
        "id": mail.id,
        "inbox": mail.inbox,
        "address": document["address"],
        "seq": document["seq"],
        "from_address": mail.sender,
        "subject": mail.subject,
        "received_at": moment(mail.accepted_ms),
    }


def _is_to(mail: ThreadMessage, recipient: str) -> bool:
    document: dict[str, Any] = orjson.loads(mail.document)
    people = (document["address"], *document["envelope"]["recipients"])
    wanted = read_address(recipient)
    return wanted is not None and wanted in {read_address(one) for one in people}
