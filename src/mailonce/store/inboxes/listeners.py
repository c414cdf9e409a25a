"""The periods in which processes listened for mail."""

from sqlalchemy import Connection, select

from mailonce.core.inboxes.listening import ListeningPeriod, continued
from mailonce.store.dialects.upsert import insert_or_replace
from mailonce.store.schema.mail_tables import LISTENERS

_L = LISTENERS.c


def beat(tx: Connection, process: bytes, *, now_ms: int) -> None:
    """Store that a process listens now; after a silence its period begins anew."""
    row = tx.execute(select(_L.since_ms, _L.until_ms).where(_L.process == process)).first()
    period = continued(None if row is None else ListeningPeriod(*row), now_ms=now_ms)
    insert_or_replace(tx, LISTENERS, [{"process": process, **period._asdict()}])


def periods(tx: Connection) -> list[ListeningPeriod]:
    """List the periods of all processes."""
    query = select(_L.since_ms, _L.until_ms)
    return [ListeningPeriod(*row) for row in tx.execute(query)]
