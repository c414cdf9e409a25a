"""Parse: a verified arrival becomes an entry for the ledger, with every id minted."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import sha256

import orjson
from msgspec.structs import replace

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Parsed, Provider
from mailonce.core.arrivals.source import Source
from mailonce.core.events.event import Event, detail_of, fitted
from mailonce.core.events.key import Fingerprint, Key, KeyScope, dead_key, keys_of
from mailonce.core.events.suppression import SUPPRESS, Suppress
from mailonce.core.ids import ArrivalId, nth_event_id
from mailonce.core.json_text import Unreadable
from mailonce.core.ledger.entry import Candidate, Dead, Entry
from mailonce.core.sends.send_key import key_of_uuid
from mailonce.core.text import storable
from mailonce.providers import sending

NewId = Callable[[], bytes]

REASON_CHARS_MAX = 500
DELIVERY_ID_CHARS_MAX = 256


def entry_of(
    provider: Provider,
    source: Source,
    arrival: Arrival,
    parsed: Parsed,
    *,
    new_id: NewId,
    suppress: Suppress = SUPPRESS,
) -> Entry:
    scope = _scope(source.workspace, provider.family or source.provider, source.account)
    arrival_id = ArrivalId(new_id())
    guard = None
    # What nobody signed binds no token to a body, and is no reason to believe other content.
    is_signed = source.is_signed
    if parsed.guard is not None and is_signed:
        key = scope.key(["guard", parsed.guard.name, parsed.guard.value])
        guard = (key, Fingerprint(sha256(arrival.body).digest()[:16]))
    # What anybody could post proves nothing.
    find_send = None if source.unproven else sending.correlation_of(provider.name)
    return Entry(
        id=arrival_id,
        workspace=source.workspace,
        source=source.id,
        account=scope.path,
        arrival_key=arrival_key_of(parsed.delivery_id, arrival.body),
        body=arrival.body,
        headers=kept_headers(provider, arrival),
        signs_body=provider.signs_body and is_signed,
        revises=provider.revises and source.options.get("other_content") == "revision",
        events=_candidates(scope, arrival_id, parsed.events, find_send),
        dead=_dead(scope, parsed.unreadable, new_id) if parsed.unreadable else (),
        guard=guard,
        suppress=suppress,
    )


def dead_entry(
    provider: Provider,
    source: Source,
    arrival: Arrival,
    reason: str,
    *,
    new_id: NewId,
    attempts: int = 1,
) -> Entry:
    """Make the entry that keeps an unreadable body, whole."""
    entry = entry_of(provider, source, arrival, Parsed(), new_id=new_id)
    key = poison_key(provider, source, arrival)
    why = storable(reason, chars_max=REASON_CHARS_MAX)
    dead = Dead(new_id(), 0, why, arrival.body, key, attempts)
    return replace(entry, dead=(dead,))


def poison_key(provider: Provider, source: Source, arrival: Arrival) -> Key:
    """Identify an unreadable body by what is equal in all its copies."""
    scope = _scope(source.workspace, provider.family or source.provider, source.account)
    return dead_key(scope.workspace, scope.path, provider.unsigned(arrival))


def arrival_key_of(delivery_id: str | None, body: bytes) -> str:
    """Identify an arrival by the provider's delivery id, else by its bytes."""
    if not delivery_id:
        return sha256(body).hexdigest()
    # A provider from another package may pass on whatever a header held.
    is_plain = delivery_id.isascii() and "\x00" not in delivery_id
    return delivery_id if is_plain else storable(delivery_id, chars_max=DELIVERY_ID_CHARS_MAX)


def kept_headers(provider: Provider, arrival: Arrival) -> bytes:
    """Keep the headers that parsing reads, so that an arrival can be parsed again; no secrets."""
    headers = arrival.headers
    if not provider.reads_headers:
        return _only_type(headers.get("content-type"))
    names = ("content-type", *provider.reads_headers)
    return orjson.dumps({name: headers[name][:1000] for name in names if name in headers})


@lru_cache(maxsize=64)
def _only_type(content_type: str | None) -> bytes:
    return orjson.dumps({} if content_type is None else {"content-type": content_type[:1000]})


@lru_cache(maxsize=1024)
def _scope(workspace: str, provider: str, account: str) -> KeyScope:
    return KeyScope(workspace, provider, account)


def _candidates(
    scope: KeyScope,
    arrival: ArrivalId,
    events: Sequence[Event],
    find_send: Callable[[Event], str | None] | None,
) -> tuple[Candidate, ...]:
    candidates = []
    for position, event in enumerate(map(fitted, events)):
        uuid = None if find_send is None else find_send(event)
        candidates.append(
            Candidate(
                nth_event_id(arrival, position),
                event,
                keys_of(scope, event.identity),
                orjson.dumps(detail_of(event)),
                None if uuid is None else key_of_uuid(uuid),
            )
        )
    return tuple(candidates)


def _dead(scope: KeyScope, unreadable: Sequence[Unreadable], new_id: NewId) -> tuple[Dead, ...]:
    return tuple(
        [
            Dead(
                new_id(),
                element.position,
                storable(element.reason, chars_max=REASON_CHARS_MAX),
                element.raw,
                dead_key(scope.workspace, scope.path, element.raw),
            )
            for element in unreadable
        ]
    )
