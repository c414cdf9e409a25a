"""Proof from events: a webhook that carries a send's id tells that its provider has the mail."""

from msgspec import Struct

from mailonce.core.events.event import Event, EventType
from mailonce.core.events.key import Key


class ProofRow(Struct, frozen=True, gc=False):
    """What an event proves; it counts in its own workspace, and for its own recipient."""

    key: Key
    workspace: str
    recipient: str
    message_id: str
    event: bytes


def proof_of(event: Event, key: Key, *, workspace: str, id_: bytes) -> ProofRow | None:
    """Say what an event proves that carries the id of a send.

    Whatever happened to the mail, the provider had it. A reply is another mail, which may quote
    anything.
    """
    if event.type is EventType.INBOUND:
        return None
    return ProofRow(key, workspace, event.recipient, event.message_id, id_)
