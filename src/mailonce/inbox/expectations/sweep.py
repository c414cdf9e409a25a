"""Sweep expectations: deadlines that are over, leases that ended, and ends to be reported.

One look each second for all of them; every process may do it, for each step is done once.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import orjson

from mailonce.core.events.event import Event, EventType, detail_of
from mailonce.core.events.key import Identity, KeyScope, Recipe, keys_of
from mailonce.core.expectations.expectation import Expectation, ExpectationState
from mailonce.core.ids import ArrivalId, EventId, public
from mailonce.core.ledger.entry import Candidate, Entry
from mailonce.inbox.expectations.expectation_parts import ID_PREFIX, ExpectationParts
from mailonce.inbox.expectations.match_messages import match_expectation, settle_locked
from mailonce.store.dialects.contract import Priority, Tx
from mailonce.store.expectations import consumptions, due, expectations, forgetting

SWEEP_MAX = 200
ROUNDS_MAX = 50
# How long an expectation and its consumptions are remembered after it was opened.
LEDGER_DAYS = 400
# What an expectation ends with is an event of a source of its own: what it says comes from us.
SOURCE = "expectations"
PROVIDER, ACCOUNT = "mailonce", "expectations"
RECIPE = Recipe(name="mailonce.expectation", version=1, identity=("expectation", "state"))


class ExpectationSweep:
    """Ends what is over, and records it as an event that routes can forward."""

    def __init__(
        self, parts: ExpectationParts, record: Callable[[Entry], Awaitable[object]]
    ) -> None:
        self._parts = parts
        self._record = record

    async def run(self) -> None:
        """Do all that is due: usually nothing, which one read shows."""
        if not await self._has_any():
            return
        await self._expire()
        await self._lapse()
        await self._report()

    async def _has_any(self) -> bool:
        now_ms = await self._parts.now_ms()
        return bool(await self._parts.database.scalar(due.HAS_DUE, now_ms=now_ms))

    async def _expire(self) -> None:
        parts = self._parts
        for _ in range(ROUNDS_MAX):
            now_ms = await parts.now_ms()
            due = await parts.database.read(
                lambda tx, now_ms=now_ms: expectations.overdue(  # type: ignore[misc]
                    tx, now_ms=now_ms, most=SWEEP_MAX
                )
            )
            if not due:
                return
            for one in due:
                # Whoever should have judged its mail may have died; nothing expires unread.
                await match_expectation(parts, one)

            def work(
                tx: Tx, due: list[Expectation] = due, now_ms: int = now_ms
            ) -> list[tuple[bytes, ExpectationState]]:
                settled: list[tuple[bytes, ExpectationState]] = []
                for one in sorted(due, key=lambda one: one.id):
                    expectations.lock(tx, one.id)
                    known = expectations.get(tx, one.workspace, one.id)
                    if known is not None and known.state is ExpectationState.PENDING:
                        state = settle_locked(tx, known, now_ms=now_ms).state
                        settled.append((one.id, state))
                return settled

            moved = await parts.database.write(work, priority=Priority.MAINTENANCE)
            changed = [(id_, state) for id_, state in moved if state != ExpectationState.PENDING]
            for id_, state in changed:
                parts.tell(id_, state)
            if len(due) < SWEEP_MAX or not changed:
                return

    async def _lapse(self) -> None:
        parts = self._parts
        now_ms = await parts.now_ms()
        has_any = await parts.database.read(lambda tx: consumptions.has_lapsed(tx, now_ms=now_ms))
        if not has_any:
            return

        def work(tx: Tx) -> int:
            ended = consumptions.lapse(tx, now_ms=now_ms, most=SWEEP_MAX)
            for one in ended:
                act = parts.clock.new_id()
                consumptions.note(tx, one.id, id_=act, act="lapse", by="", at_ms=now_ms)
            return len(ended)

        many = await parts.database.write(work, priority=Priority.MAINTENANCE)
        parts.metrics.unconfirmed(many)

    async def _report(self) -> None:
        """Record each end as an event: the ledger lets the first through, however often we try."""
        parts = self._parts
        ended = await parts.database.read(lambda tx: expectations.unreported(tx, most=SWEEP_MAX))
        for one in ended:
            await self._record(self._entry(one))
        if ended:
            ids = [one.id for one in ended]
            await parts.database.write(
                lambda tx: expectations.mark_reported(tx, ids), priority=Priority.MAINTENANCE
            )

    async def forget(self) -> None:
        """Forget what is older than the ledger of consumptions."""
        now_ms = await self._parts.now_ms()
        before_ms = now_ms - LEDGER_DAYS * 86_400_000
        await self._parts.database.write(
            lambda tx: forgetting.forget(tx, before_ms=before_ms, now_ms=now_ms, most=SWEEP_MAX),
            priority=Priority.MAINTENANCE,
        )

    def _entry(self, expectation: Expectation) -> Entry:
        id_ = public(ID_PREFIX, expectation.id)
        fields: dict[str, Any] = {"expectation": id_, "state": str(expectation.state)}
        event = Event(
            type=EventType.OTHER,
            identity=Identity(RECIPE, fields),
            recipient=expectation.address if "@" in expectation.address[1:] else "",
            occurred_ms=expectation.deadline_ms,
            reason=f"expectation_{expectation.state}",
            metadata=fields | {"inbox": expectation.inbox, "why": expectation.reason},
        )
        scope = KeyScope(expectation.workspace, PROVIDER, ACCOUNT)
        keys = keys_of(scope, event.identity)
        clock = self._parts.clock
        detail = orjson.dumps(detail_of(event))
        return Entry(
            id=ArrivalId(clock.new_id()),
            workspace=expectation.workspace,
            source=SOURCE,
            account=f"{PROVIDER}/{ACCOUNT}",
            arrival_key=f"{id_}:{expectation.state}",
            body=orjson.dumps(fields),
            headers=b"{}",
            signs_body=True,
            events=(Candidate(EventId(clock.new_id()), event, keys, detail),),
        )
