"""Effects: the rows that events write when they take effect."""

from collections.abc import Mapping, Sequence
from typing import Any

from mailonce.core.deliveries.delivery import identity_of, key_of, shown_event
from mailonce.core.deliveries.route import Route
from mailonce.core.deliveries.routed_body import body_for, steps_max_of
from mailonce.core.events.facts import kind_of, stamp_of
from mailonce.core.events.key import Key
from mailonce.core.events.suppression import statement_of
from mailonce.core.ledger.entry import (
    Candidate,
    CountRow,
    Entry,
    EventRow,
    FactRow,
    OwedRow,
    Rows,
    StatementRow,
)
from mailonce.core.ledger.send_proof import proof_of

# The routes of each workspace.
Routes = Mapping[str, Sequence[Route]]


class Effects:
    """All that the events of one batch write, added event by event."""

    def __init__(self, rows: Rows, received_ms: int, routes: Routes) -> None:
        self._rows = rows
        self._received_ms = received_ms
        self._routes = routes
        self._events = rows.of(EventRow)
        self._facts = rows.of(FactRow)
        self._counts: dict[tuple[str, str, str], int] = {}
        # By workspace, the budget of steps that each route's expression has for an event.
        self._steps: dict[str, int] = {}

    def add(
        self,
        entry: Entry,
        position: int,
        candidate: Candidate,
        key: Key,
        *,
        conflict_with: bytes | None,
    ) -> None:
        """Add the rows of one event; a conflict counts nothing."""
        event = candidate.event
        # A plain word: `.value` is slow, and SQLite takes long over a subclass of str.
        type_ = str(event.type)
        source, account = candidate.origin or (entry.source, entry.account)
        routes = self._routes.get(entry.workspace)
        body = None if not routes else self._owe(routes, entry, candidate, key, conflict_with)
        count = 0 if conflict_with is not None else 1
        stamp = stamp_of(event.occurred_ms, key, received_ms=self._received_ms)
        self._events.append(
            EventRow(
                candidate.id,
                key,
                entry.workspace,
                source,
                account,
                type_,
                str(event.bounce) if event.bounce is not None else None,
                event.message_id,
                event.recipient,
                event.occurred_ms,
                entry.id,
                position,
                candidate.detail,
                conflict_with,
                body,
            )
        )
        if event.message_id:
            self._facts.append(
                FactRow(
                    entry.workspace,
                    event.message_id,
                    event.recipient,
                    account,
                    kind_of(event),
                    count,
                    stamp,
                    stamp,
                )
            )
        say = statement_of(event, entry.suppress)
        if say is not None:
            self._rows.of(StatementRow).append(
                StatementRow(
                    entry.workspace,
                    say.address,
                    say.stream,
                    str(say.cause),
                    candidate.id,
                    say.lifts,
                    stamp,
                    event.reason,
                )
            )
        if candidate.send is not None:
            proof = proof_of(event, candidate.send, workspace=entry.workspace, id_=candidate.id)
            self._rows.add([] if proof is None else [proof])
        if count:
            counted = (entry.workspace, source, type_)
            self._counts[counted] = self._counts.get(counted, 0) + 1

    def finish(self) -> None:
        self._rows.add([CountRow(*place, count) for place, count in self._counts.items()])

    def _owe(
        self,
        routes: Sequence[Route],
        entry: Entry,
        candidate: Candidate,
        key: Key,
        conflict_with: bytes | None,
    ) -> bytes | None:
        """Make an event's deliveries for its routes; give the body that its own row keeps."""
        source, account = candidate.origin or (entry.source, entry.account)
        shown: dict[str, Any] = {}

        def show() -> dict[str, Any]:
            if not shown:
                shown.update(
                    shown_event(
                        candidate.event,
                        id_=candidate.id,
                        key=key,
                        source=source,
                        account=account,
                        received_ms=self._received_ms,
                        conflict_with=conflict_with,
                    )
                )
            return shown

        shared = None
        identity = identity_of(candidate.event, key)
        steps_max = self._steps_max(entry.workspace, routes)
        for route in routes:
            body = body_for(route, source, candidate.event, show, steps_max=steps_max)
            if body is None:
                continue
            own: bytes | None = body
            if shared is None and route.is_plain:
                # The first is kept in the event's own row: most events are owed to one route.
                shared, own = body, None
            self._rows.of(OwedRow).append(
                OwedRow(
                    key_of(identity, route.id),
                    entry.workspace,
                    route.id,
                    candidate.id,
                    own,
                    route.deadline_s,
                )
            )
        return shared

    def _steps_max(self, workspace: str, routes: Sequence[Route]) -> int:
        steps = self._steps.get(workspace)
        if steps is None:
            steps = self._steps[workspace] = steps_max_of(routes)
        return steps
