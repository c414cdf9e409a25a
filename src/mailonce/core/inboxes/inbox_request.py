"""A request for inboxes: what may be asked for, and the inbox that follows from it."""

import re
from base64 import b32encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from mailonce.core import bounds
from mailonce.core.argument_error import ArgumentError
from mailonce.core.inboxes.inbox import BYTES_MAX, MAILS_MAX, TTL_S, TTL_S_MAX, Inbox
from mailonce.core.mail.address import LOCAL_CHARS_MAX, read_address

# 80 bits: nobody finds a living address by trying.
CHANCE_BYTES = 10
METADATA_BYTES_MAX = 4096
IDEMPOTENCY_KEY = re.compile(r"[!-~]{1,255}")
CATCH_ALL = "*"
# What needs no quotes in an address (RFC 5322, dot-atom), in lower case. A plus sign begins a tag.
_LOCAL = re.compile(r"[a-z0-9!#$%&'*/=?^_`{|}~-]+(?:\.[a-z0-9!#$%&'*/=?^_`{|}~-]+)*")


class InboxLimits(Struct, frozen=True, kw_only=True):
    """What an inbox gets where its request asks for nothing, and the most that it may ask for."""

    ttl_s: int = TTL_S
    ttl_s_max: int = TTL_S_MAX
    # Whether an inbox may have no end.
    permanent: bool = False
    mails_max: int = MAILS_MAX
    bytes_max: int = BYTES_MAX


class InboxRequest(Struct, frozen=True, kw_only=True):
    """One inbox as a caller asks for it."""

    # None: a random one. `*`: all addresses of the domain that no other inbox has.
    local: str | None = None
    # None: the workspace's first.
    domain: str | None = None
    # Left out: the default. None: it stays until somebody deletes it.
    ttl_s: int | UnsetType | None = UNSET
    metadata: Mapping[str, Any] = {}
    mails_max: int | None = None
    bytes_max: int | None = None


def inbox_for(
    request: InboxRequest,
    limits: InboxLimits,
    *,
    id_: str,
    workspace: str,
    domain: str,
    chance: bytes,
    now_ms: int,
    agent: str | None = None,
) -> Inbox:
    """Make the inbox that a request asks for.

    Raises: ArgumentError where it asks for what may not be.
    """
    ttl_s = _ttl_s(request, limits)
    for trouble in bounds.of_json("metadata", request.metadata, METADATA_BYTES_MAX):
        raise ArgumentError(trouble)
    return Inbox(
        id=id_,
        workspace=workspace,
        address=address_for(request.local, domain, chance=chance),
        created_ms=now_ms,
        expires_ms=None if ttl_s is None else now_ms + ttl_s * 1000,
        metadata=request.metadata,
        agent=agent,
        mails_max=_at_most("mails_max", request.mails_max, limits.mails_max),
        bytes_max=_at_most("bytes_max", request.bytes_max, limits.bytes_max),
    )


def address_for(local: str | None, domain: str, *, chance: bytes) -> str:
    """Give the address of an inbox in the one spelling in which it is kept.

    Raises: ArgumentError where the local part is none, or has a tag.
    """
    if local is None:
        assert len(chance) >= CHANCE_BYTES, f"an address takes {CHANCE_BYTES} random bytes"
        return f"{b32encode(chance[:CHANCE_BYTES]).decode().lower()}@{domain}"
    if local == CATCH_ALL:
        return f"@{domain}"
    if "+" in local:
        raise ArgumentError(
            f"`local` is {local[:80]!r}; leave out the plus sign: what follows it is a tag, "
            "which every inbox takes by itself"
        )
    read = read_address(f"{local}@{domain}")
    if read is None or _LOCAL.fullmatch(read.local) is None:
        raise ArgumentError(
            f"`local` is {local[:80]!r}; use at most {LOCAL_CHARS_MAX} letters, digits and -_. "
            "of ASCII, or leave it out for a random one"
        )
    return str(read)


def request_keys(idempotency_key: str, many: int) -> list[bytes]:
    """Give the keys by which the inboxes of one request are found again, in their order.

    Raises: ArgumentError where the caller's key is none.
    """
    if IDEMPOTENCY_KEY.fullmatch(idempotency_key) is None:
        raise ArgumentError(
            "`Idempotency-Key` has 1 to 255 printable ASCII characters without spaces; shorten it"
        )
    head = sha256(b"inbox request\0" + idempotency_key.encode()).digest()
    return [sha256(head + number.to_bytes(4, "big")).digest()[:16] for number in range(many)]


def fingerprint_of(requests: Sequence[InboxRequest]) -> bytes:
    """Hash what a request asks for: the same key with other content is another request."""
    return sha256(msgspec.json.encode(requests, order="sorted")).digest()[:16]


def _ttl_s(request: InboxRequest, limits: InboxLimits) -> int | None:
    if request.ttl_s is UNSET:
        return limits.ttl_s
    if request.ttl_s is None:
        if limits.permanent:
            return None
        raise ArgumentError(
            "`ttl_s` is null, and inboxes without an end are not allowed here; "
            "give seconds, or set inboxes.permanent = true"
        )
    assert isinstance(request.ttl_s, int)
    if not 1 <= request.ttl_s <= limits.ttl_s_max:
        raise ArgumentError(f"`ttl_s` is {request.ttl_s}; use seconds from 1 to {limits.ttl_s_max}")
    return request.ttl_s


def _at_most(name: str, wanted: int | None, largest: int) -> int:
    if wanted is None:
        return largest
    if not 1 <= wanted <= largest:
        raise ArgumentError(f"`{name}` is {wanted}; use a number from 1 to {largest}")
    return wanted
