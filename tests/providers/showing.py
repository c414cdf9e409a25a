"""Events of a provider as users see them, without a database in between."""

from itertools import count

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.source import Source
from mailonce.core.ledger.entry import Candidate, Entry
from mailonce.pipeline.parse import entry_of
from mailonce.store.ledger.copies import NO_COPIES
from mailonce.store.ledger.events import LoggedEvent
from mailonce.views.events import EventJson, event_json
from tests.providers.cases import provider_of


def show(arrival: Arrival, source: Source) -> list[EventJson]:
    """Parse an arrival as the door does, and write its events as the public contract has them."""
    provider = provider_of(source.provider)
    numbers = count(1)
    entry = entry_of(
        provider,
        source,
        arrival,
        provider.parse(arrival, source),
        new_id=lambda: next(numbers).to_bytes(16, "big"),
    )
    known = {source.id: source}
    rows = [_logged(entry, candidate, arrival.now_ms) for candidate in entry.events]
    return [event_json(row, known, NO_COPIES, row.received_ms) for row in rows]


def _logged(entry: Entry, candidate: Candidate, received_ms: int) -> LoggedEvent:
    event = candidate.event
    return LoggedEvent(
        day=received_ms // 86_400_000,
        id=candidate.id,
        received_ms=received_ms,
        key=candidate.keys.key,
        workspace=entry.workspace,
        source=entry.source,
        account=entry.account,
        type=str(event.type),
        bounce=None if event.bounce is None else str(event.bounce),
        message_id=event.message_id,
        recipient=event.recipient,
        occurred_ms=event.occurred_ms,
        arrival=entry.id,
        position=0,
        detail=candidate.detail,
        conflict_with=None,
    )
