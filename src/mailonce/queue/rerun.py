"""Run reruns slice by slice: each slice and its progress commit together."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from mailonce.clock import Clock
from mailonce.core.deliveries.delivery import identity_of, key_of, shown_event
from mailonce.core.deliveries.rerun import Rerun, RerunFilter, RerunKind, RerunState
from mailonce.core.deliveries.route import Route
from mailonce.core.deliveries.routed_body import body_for, steps_max_of
from mailonce.core.events.event import Event, fitted
from mailonce.core.ids import public
from mailonce.errors import ClashError, MailonceError, MissingError, RefusedError
from mailonce.loop import Loop
from mailonce.queue.configuration import ConfigurationCache
from mailonce.queue.rerun_scope import RerunScope, beginning, count, end_ms_of
from mailonce.queue.unsendable import NamedDeliveries, leave_out_unsendable, why_not
from mailonce.store.audit import name_object
from mailonce.store.dialects.contract import DAY_MS, Database, Head, Priority, Tx
from mailonce.store.ledger import dead_letters
from mailonce.store.ledger.dead_letters import DeadLetter
from mailonce.store.ledger.events import LoggedEvent
from mailonce.store.work import expiry, redelivery, reprocessing, reruns
from mailonce.store.work.pages import DeliveryPosition
from mailonce.store.work.redelivery import RedeliveryCount, RedeliveryRequest
from mailonce.store.work.reprocessing import LogSlice, NewDelivery
from mailonce.telemetry import RERUN_FAILED, RERUN_FINISHED, log

SLICE_ROWS = 1_000
REPROCESS_ROWS = 200
# A slice of the log ends early when the bodies it makes are larger than this.
REPROCESS_BYTES_MAX = 8 << 20
LOOK_EVERY_S = 1.0
# A rerun that was not advanced for this long may be taken by any process; a slice takes far less.
ABANDONED_MS = 15_000


class ReadArrival(Protocol):
    """An arrival that was read again."""

    def event(self, position: int) -> Event | None:
        """Give the event at a position, or None where today's code finds none."""


ReadArrivals = Callable[[str, Iterable[bytes]], Awaitable[Mapping[bytes, ReadArrival]]]


class _OvertakenError(MailonceError):
    """The rerun was stopped, or another process moved it: this slice is rolled back."""


class Reruns:
    """Redeliveries and reprocessings. Any process may run one, only one does at a time."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        configuration: ConfigurationCache,
        read_arrivals: ReadArrivals,
        *,
        window_days: int,
        wake: Callable[[Iterable[str]], None] = lambda _: None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._configuration = configuration
        self._read_arrivals = read_arrivals
        self._window_days = window_days
        self._wake = wake
        self._loop = Loop("reruns", self._run, retry_s=LOOK_EVERY_S, failed=RERUN_FAILED)
        self.start = self._loop.start
        # Between two slices; whoever comes next goes on from there.
        self.stop = self._loop.stop
        # By rerun, when we advanced it last: while that is stored it is ours.
        self._moved: dict[bytes, int] = {}

    async def leave_out_unsendable(self, workspace: str, filter_: RerunFilter) -> NamedDeliveries:
        """Leave out of the deliveries that are named one by one those that cannot be sent again.

        Raises: RefusedError where none is left.
        """
        # Another process may have put a route back a moment ago.
        await self._configuration.refresh()
        known = self._configuration.snapshot.routing.routes.get(workspace, ())
        return await leave_out_unsendable(self._database, workspace, filter_, known)

    async def count(self, workspace: str, kind: RerunKind, filter_: RerunFilter) -> RedeliveryCount:
        """Count what a rerun would make due, and what it leaves out as erased."""
        head = await self._database.head()
        scope = RerunScope(workspace, kind, filter_, head.now_ms + 1, self._again(workspace, head))
        return await count(self._database, scope)

    async def make(
        self, workspace: str, kind: RerunKind, filter_: RerunFilter, *, total: int | None = None
    ) -> Rerun:
        """Begin a rerun over what there is now; it runs in the background.

        `total` is what was counted for it, if it was.
        """
        if total is None:
            total = (await self.count(workspace, kind, filter_)).total
        head = await self._database.head()
        filter_ = replace(filter_, until_ms=end_ms_of(filter_, head.now_ms + 1))
        after: tuple[int, bytes] = beginning(filter_)
        if kind is RerunKind.REPROCESSING:
            today = head.now_ms // DAY_MS
            first_day = partial(reprocessing.first_day, where=filter_, today=today)
            after = (await self._database.read(first_day), b"")
        rerun = Rerun(
            id=self._clock.new_id(),
            workspace=workspace,
            kind=kind,
            filter=filter_,
            state=RerunState.RUNNING,
            after_mark=after[0],
            after_key=after[1],
            total=total,
            done=0,
            created_ms=head.now_ms,
            changed_ms=0,
        )
        name_object(f"{public(kind.prefix, rerun.id)}: {total} of them")
        await self._database.write(lambda tx: reruns.insert_new(tx, rerun))
        self._loop.wake()
        return rerun

    async def find(self, workspace: str, kind: RerunKind, rerun_id: bytes) -> Rerun:
        """Find a rerun of a workspace.

        Raises: MissingError.
        """
        rerun = await self._database.read(lambda tx: reruns.get(tx, workspace, kind, rerun_id))
        if rerun is None:
            raise MissingError(
                f"there is no {kind} {public(kind.prefix, rerun_id)}; see GET /v1/{kind.plural}"
            )
        return rerun

    async def switch(
        self, workspace: str, kind: RerunKind, rerun_id: bytes, *, to: RerunState
    ) -> Rerun:
        """Stop a rerun between two slices, or let it go on from there.

        Raises: ClashError where it is finished.
        """
        was = RerunState.STOPPED if to is RerunState.RUNNING else RerunState.RUNNING
        rerun = await self.find(workspace, kind, rerun_id)
        if rerun.state is RerunState.FINISHED:
            raise ClashError(f"this {kind} is finished; begin a new one")
        await self._database.write(lambda tx: reruns.switch(tx, rerun_id, to=to, was=was))
        self._loop.wake()
        return await self.find(workspace, kind, rerun_id)

    async def retry(self, letter: DeadLetter) -> bool:
        """Make the delivery of a dead letter due again, and resolve the letter in one transaction.

        Says whether the letter was still open: of one that somebody has retried or dismissed since
        it was read, nothing is sent.
        Raises: RefusedError where its route or its body is gone.
        """
        done = await self._retry_now(letter)
        # Another process may have put its route back a moment ago.
        if done == 0 and await self._configuration.refresh():
            done = await self._retry_now(letter)
        if done is None:
            return False
        if not done:
            known = self._configuration.snapshot.routing.routes.get(letter.workspace, ())
            find = partial(why_not, letter=letter, routes=known)
            raise RefusedError(await self._database.read(find))
        self._wake([letter.route or ""])
        return True

    async def _retry_now(self, letter: DeadLetter) -> int | None:
        """Make the delivery of a letter due; None: the letter is closed, 0: nothing can be sent."""
        key = letter.delivery
        assert key is not None, "only a letter of a delivery is delivered again"
        again = self._again(letter.workspace, await self._database.head())
        filter_ = RerunFilter(ids=(key,))
        bounds = redelivery.by_keys([key])

        def work(tx: Tx) -> int | None:
            if not dead_letters.take_open(tx, letter.workspace, letter.id):
                return None
            # Another process may have removed its route a moment ago.
            if letter.route is None or not expiry.is_there(tx, letter.route):
                return 0
            return redelivery.redeliver(tx, letter.workspace, filter_, bounds, again)

        return await self._database.write(work)

    async def step(self) -> bool:
        """Run one slice of every rerun that is ours; say whether there was one."""
        moved = False
        for rerun in await self._database.read(reruns.list_running):
            head = await self._database.head()
            if self._moved.get(rerun.id) != rerun.changed_ms:
                if rerun.changed_ms > head.now_ms - ABANDONED_MS:
                    continue
                if not await self._claim(rerun, head.now_ms):
                    continue
                moved = True
                continue
            try:
                if rerun.kind is RerunKind.REDELIVERY:
                    await self._redeliver(rerun, head)
                else:
                    await self._reprocess(rerun, head)
            except _OvertakenError:
                self._moved.pop(rerun.id, None)
            moved = True
        return moved

    async def _claim(self, rerun: Rerun, now_ms: int) -> bool:
        won: bool = await self._write(lambda tx: reruns.claim(tx, rerun, now_ms=now_ms))
        if won:
            self._moved[rerun.id] = now_ms
        return won

    async def _redeliver(self, rerun: Rerun, head: Head) -> None:
        filter_ = rerun.filter
        again = self._again(rerun.workspace, head)._replace(by=rerun.id)
        end_ms = end_ms_of(filter_, rerun.created_ms + 1)
        after = DeliveryPosition(rerun.after_mark, rerun.after_key)

        def work(tx: Tx) -> int:
            last = None
            bounds = redelivery.by_keys(filter_.ids)
            if not filter_.ids:
                last = redelivery.boundary(tx, after=after, until_ms=end_ms, rows=SLICE_ROWS)
                bounds = redelivery.in_slice(after, last, end_ms)
            done = redelivery.redeliver(tx, rerun.workspace, filter_, bounds, again)
            self._advance(tx, rerun, last or after, done, is_last=last is None, head=head)
            return done

        done = await self._write(work)
        self._moved[rerun.id] = head.now_ms
        if done:
            self._wake([filter_.route] if filter_.route else again.deadlines_s)

    async def _reprocess(self, rerun: Rerun, head: Head) -> None:
        slice_ = await self._database.read(lambda tx: _log_slice(tx, rerun))
        end_day = end_ms_of(rerun.filter, rerun.created_ms + 1) // DAY_MS
        routes = [
            route
            for route in self._configuration.snapshot.routing.routes.get(rerun.workspace, ())
            if rerun.filter.route in {None, route.id}
        ]
        rows: list[NewDelivery] = []
        size = done = 0
        day, id_ = slice_.day, slice_.id
        for event, read in await self._read_anew(rerun.workspace, slice_.events):
            done += 1
            made = [] if read is None else _owed(routes, event, read, rerun, head.now_ms)
            rows += made
            size += sum(len(row.body) for row in made)
            if size > REPROCESS_BYTES_MAX and not rerun.filter.ids:
                day, id_ = event.day, event.id
                break
        is_last = bool(rerun.filter.ids) or day > end_day

        def work(tx: Tx) -> None:
            reprocessing.owe(tx, rows, reprocessing=rerun.id, now_ms=head.now_ms)
            self._advance(tx, rerun, (day, id_), done, is_last=is_last, head=head)

        await self._write(work)
        self._moved[rerun.id] = head.now_ms
        if rows:
            self._wake({row.route for row in rows})

    async def _read_anew(
        self, workspace: str, logged: list[LoggedEvent]
    ) -> list[tuple[LoggedEvent, Event | None]]:
        arrivals = await self._read_arrivals(workspace, {event.arrival for event in logged})
        pairs = [(event, arrivals.get(event.arrival)) for event in logged]
        return [
            (event, None if arrival is None else arrival.event(event.position))
            for event, arrival in pairs
        ]

    def _advance(
        self, tx: Tx, rerun: Rerun, to: tuple[int, bytes], done: int, *, is_last: bool, head: Head
    ) -> None:
        if not reruns.advance(tx, rerun, after=to, done=done, finished=is_last, now_ms=head.now_ms):
            raise _OvertakenError
        if is_last:
            log.info(RERUN_FINISHED, rerun=public(rerun.kind.prefix, rerun.id))

    def _again(self, workspace: str, head: Head) -> RedeliveryRequest:
        routes = self._configuration.snapshot.routing.routes.get(workspace, ())
        # A day more than pruning needs: it may begin while we write.
        oldest_day = head.now_ms // DAY_MS - self._window_days + 1
        return RedeliveryRequest(
            head.now_ms, oldest_day, {route.id: route.deadline_s for route in routes}
        )

    async def _write(self, work: Callable[[Tx], Any]) -> Any:
        return await self._database.write(work, priority=Priority.MAINTENANCE)

    async def _run(self) -> float:
        if await self._database.scalar(reruns.HAS_RUNNING):
            while await self.step():
                pass
        return LOOK_EVERY_S


def _log_slice(tx: Tx, rerun: Rerun) -> LogSlice:
    filter_ = rerun.filter
    if filter_.ids:
        rows, _ = reprocessing.get_named(tx, rerun.workspace, filter_)
        return LogSlice(sorted(rows.values(), key=lambda one: one.id), 0, b"")
    return reprocessing.next_slice(
        tx,
        rerun.workspace,
        filter_,
        day=rerun.after_mark,
        after=rerun.after_key,
        rows=REPROCESS_ROWS,
    )


def _owed(
    routes: Sequence[Route], logged: LoggedEvent, read: Event, rerun: Rerun, now_ms: int
) -> list[NewDelivery]:
    """Say which routes take an event as it is read today, and with which bodies.

    What a route never had is no revision of anything: it has the key that it would have had at
    first, which stands for one delivery however many ask for it.
    """
    event = fitted(read)
    shown = shown_event(
        event,
        id_=logged.id,
        key=logged.key,
        source=logged.source,
        account=logged.account,
        received_ms=logged.received_ms,
        conflict_with=logged.conflict_with,
    )
    revision = None if rerun.filter.missing else public(rerun.kind.prefix, rerun.id)
    steps_max = steps_max_of(routes)
    made = (
        (route, body_for(route, logged.source, event, lambda: shown, steps_max=steps_max))
        for route in routes
    )
    return [
        NewDelivery(
            key_of(identity_of(event, logged.key), route.id, revision),
            route.id,
            logged,
            body,
            now_ms + route.deadline_s * 1000,
        )
        for route, body in made
        if body is not None
    ]
