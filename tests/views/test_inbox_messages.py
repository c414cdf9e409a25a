"""Messages of inboxes as users see them."""

import pytest

from mailonce.core.inboxes.inbox import Inbox
from mailonce.errors import MissingError
from mailonce.views.inbox_messages import message_id_of
from tests.factories import Ledger, make_body, make_source

INBOX = Inbox(id="ibx_1", workspace="default", address="ann@in.test", created_ms=0)


async def test_a_mail_that_was_sent_is_no_message_that_was_deleted(ledger: Ledger) -> None:
    """Its provider's id has events as well, and never was a message of an inbox."""
    await ledger.tell(make_source(), [make_body(1, message_id="m-1", type="delivered")])

    with pytest.raises(MissingError, match="there is no message 'm-1' in this inbox"):
        await message_id_of(ledger.database, INBOX, "m-1")
