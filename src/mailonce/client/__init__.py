"""The client: sends, inboxes and expectations of a mailonce server, blocking and awaited.

>>> from mailonce import Client
>>> client = Client("http://127.0.0.1:8100", "mok_…")

Nothing but Python's own library is imported, so `pip install mailonce` is enough.

Rule: A flow does no step itself, so both clients share it; what may be repeated is repeated.
Imports: `core.mail.domain_name`, `errors`, `tls`.
"""

from mailonce.client.async_client import AsyncClient
from mailonce.client.blocking_client import Client
from mailonce.client.errors_of_answers import WaitTimeoutError
from mailonce.client.records import (
    ArtifactRecord,
    ConsumptionRecord,
    ExpectationRecord,
    InboxRecord,
    MessageList,
    MessageRecord,
    SendRecord,
)
from mailonce.client.requests import new_key

__all__ = [
    "ArtifactRecord",
    "AsyncClient",
    "Client",
    "ConsumptionRecord",
    "ExpectationRecord",
    "InboxRecord",
    "MessageList",
    "MessageRecord",
    "SendRecord",
    "WaitTimeoutError",
    "new_key",
]
