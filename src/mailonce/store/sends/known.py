"""What a request must know before it is submitted: sends of its keys, suppressed addresses.

Claims are forgotten after a window or two, sends are kept for longer: so the ledger itself is asked
whether a key is taken. Who comes at the same moment is told apart by the claims.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from sqlalchemy import Connection, select

from mailonce.core.events.facts import Stamp
from mailonce.core.events.key import Fingerprint, Key
from mailonce.core.events.suppression import ALL_STREAMS, RecordedStatement, standing
from mailonce.store.dialects.contract import RunStatement
from mailonce.store.filters import is_pair
from mailonce.store.schema.send_tables import SEND_REQUESTS, SENDS
from mailonce.store.schema.tables import SUPPRESSIONS

# SQLite takes some thousands of values in a statement.
SLICE = 500

# A workspace, and an address in it.
Place = tuple[str, str]
_Value = TypeVar("_Value")


class KnownSend(NamedTuple):
    """A send that holds a key."""

    key: bytes
    id: bytes
    fingerprint: bytes
    parts: bytes


class SuppressedStreams(NamedTuple):
    """For which streams of mail an address is suppressed, and by which cause; '' is all mail."""

    causes: dict[str, str]

    def cause_for(self, stream: str) -> str | None:
        """Say why a mail of this stream must not be sent; None where it may."""
        return self.causes.get(ALL_STREAMS) or self.causes.get(stream)


# What PostgreSQL is asked in one statement; `suppressed` says what is known of an address.
LOOK = """
SELECT 0, key, id, fingerprint, parts, NULL, NULL FROM sends WHERE key = ANY($1::bytea[])
UNION ALL
SELECT 1, key, NULL, fingerprint, NULL, NULL, NULL FROM send_requests WHERE key = ANY($2::bytea[])
UNION ALL
SELECT DISTINCT 2, NULL::bytea, NULL::bytea, NULL::bytea, NULL::bytea, p.workspace, p.address
FROM unnest($3::text[], $4::text[]) AS a (workspace, address)
JOIN suppressions AS p ON p.workspace = a.workspace AND p.address = a.address
"""


class KnownKeys(NamedTuple):
    """Which keys are taken, and of which addresses anything is known."""

    sends: dict[Key, KnownSend]
    requests: dict[Key, Fingerprint]
    places: set[Place]


async def look(
    run: RunStatement, keys: Sequence[Key], requests: Sequence[Key], places: Sequence[Place]
) -> KnownKeys:
    """Ask for all of it at once."""
    rows = await run(
        LOOK, keys, requests, [place[0] for place in places], [place[1] for place in places]
    )
    known = KnownKeys({}, {}, set())
    for what, key, id_, fingerprint, parts, workspace, address in rows:
        if what == 0:
            known.sends[Key(key)] = KnownSend(key, id_, fingerprint, parts)
        elif what == 1:
            known.requests[Key(key)] = Fingerprint(fingerprint)
        else:
            known.places.add((workspace, address))
    return known


def sends_of(tx: Connection, keys: Sequence[Key]) -> dict[Key, KnownSend]:
    """Find the sends of these keys."""
    columns = [SENDS.c[name] for name in KnownSend._fields]
    known = [
        KnownSend(*map(bytes, row))
        for some in _slices(keys)
        for row in tx.execute(select(*columns).where(SENDS.c.key.in_(some)))
    ]
    return {Key(one.key): one for one in known}


def requests_of(tx: Connection, keys: Sequence[Key]) -> dict[Key, Fingerprint]:
    """Find what the keys of requests stand for."""
    if not keys:
        return {}
    row = SEND_REQUESTS.c
    kept = tx.execute(select(row.key, row.fingerprint).where(row.key.in_(keys)))
    return {Key(bytes(key)): Fingerprint(bytes(fingerprint)) for key, fingerprint in kept}


def parts_of_request(tx: Connection, workspace: str, send_key: str) -> bytes | None:
    """Give the parts of one mail of a request, to say in what another one differs."""
    row = SENDS.c
    query = select(row.parts).where(row.workspace == workspace, row.send_key == send_key)
    parts: bytes | None = tx.scalar(query.limit(1))
    return None if parts is None else bytes(parts)


def suppressed(tx: Connection, places: Iterable[Place]) -> dict[Place, SuppressedStreams]:
    """Say of which addresses mail is suppressed, in the workspaces that they are asked for."""
    row = SUPPRESSIONS.c
    registers: dict[tuple[str, str, str, str], list[RecordedStatement]] = {}
    for some in _slices(sorted({*places})):
        query = select(
            row.workspace, row.address, row.stream, row.cause, row.lifts, row.lifted, row.stamp
        ).where(is_pair(row.workspace, row.address, some))
        for workspace, address, stream, cause, lifts, lifted, stamp in tx.execute(query):
            statement = RecordedStatement(
                lifts=lifts,
                stamp=None if stamp is None else Stamp(bytes(stamp)),
                lifted=lifted and not lifts,
            )
            registers.setdefault((workspace, address, stream, cause), []).append(statement)
    streams: dict[Place, SuppressedStreams] = {}
    for (workspace, address, stream, cause), statements in sorted(registers.items()):
        if standing(statements) is not None:
            of_place = streams.setdefault((workspace, address), SuppressedStreams({}))
            of_place.causes.setdefault(stream, cause)
    return streams


def _slices(values: Sequence[_Value]) -> Iterable[Sequence[_Value]]:
    return (values[at : at + SLICE] for at in range(0, len(values), SLICE))
