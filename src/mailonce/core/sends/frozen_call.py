"""A call as the ledger keeps it, for the case that it may be repeated.

It is repeated only by the account that made it: another account's provider does not know the key,
and would send a second mail.
"""

from hashlib import sha256

from mailonce.core.json_text import canonical
from mailonce.core.sends.sender import Sender
from mailonce.core.sends.sending import Frozen, frozen_bytes, read_frozen

_MARK_BYTES = 8


def written_call(request: Frozen, sender: Sender) -> bytes:
    """Write a request with the mark of the account by which it is made."""
    return _mark(sender) + frozen_bytes(request)


def read_call(kept: bytes, sender: Sender) -> Frozen | None:
    """Read a request that may be repeated; None where the sender has another account now."""
    if kept[:_MARK_BYTES] != _mark(sender):
        return None
    return read_frozen(kept[_MARK_BYTES:])


def _mark(sender: Sender) -> bytes:
    account = [
        sender.provider, sender.endpoint, sender.region, sender.domain, sender.host,
        sender.username, list(sender.secrets[:1]),
    ]  # fmt: skip
    return sha256(b"account\0" + canonical(account)).digest()[:_MARK_BYTES]
