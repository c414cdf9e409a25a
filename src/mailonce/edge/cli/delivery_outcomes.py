"""What became of deliveries that were sent again: followed until each has an outcome."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from shlex import quote
from typing import Annotated, Any, Protocol

import typer

from mailonce.core.deliveries.route import RouteKind
from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.exits import CHECK_FAILED
from mailonce.edge.cli.show import Show, moment

LOOK_EVERY_S = 0.5
# After so many looks at which nothing had moved, there is nothing to follow; an attempt that is
# being made may take longer.
LOOKS_MAX = 6
RUNNING_LOOKS_MAX = 60
REASONS_MAX = 5
# Of so many that are not delivered, the oldest, it is asked why.
ROWS_MAX = 100
WAITING = ("pending", "in_progress")
Detach = Annotated[bool, typer.Option("--detach", help="return at once; the server goes on")]
# What an endpoint that is taken to be down is asked, and how often at least.
ENDPOINT_DOWN = (
    "the endpoint is down: one delivery is tried at a time, at least each minute, and what is due "
    "follows once it answers; --state pending makes them due, and sends none of them before that"
)
ONE_AT_A_TIME = (
    "or later: the endpoint is down, so one delivery of its route is tried at a time, which may be "
    "another; each keeps its own wait after a failure"
)
SEE = "[dim]see `mailonce undelivered`[/dim]"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryOutcome:
    """How many were delivered, failed or wait, and why the others did not arrive."""

    # None: it is not known how many there are, as of events that any route may take.
    delivered: int | None
    failed: int
    waiting: int
    # Whether a further look can show something else.
    moves: bool = True
    # Whether an attempt is being made.
    is_running: bool = False
    # Whether something should have arrived by now: not where its route is off or polled.
    is_late: bool = False
    reasons: Mapping[str, int] = field(default_factory=dict)


class Watch(Protocol):
    """Looks at deliveries that were sent again."""

    total: int

    async def look(self) -> DeliveryOutcome: ...


@dataclass(slots=True)
class DeliveryWatch:
    """Looks at deliveries by their ids; `since` is when they were asked for."""

    client: ApiSession
    ids: Sequence[str]
    _: KW_ONLY
    since: str
    total: int = 0
    _routes: dict[str, Any] = field(default_factory=dict)
    _ends: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.total = len(self.ids)

    async def look(self) -> DeliveryOutcome:
        """Ask for those that had no end at the last look."""
        self._routes = await _routes(self.client)
        waiting = []
        for one in self.ids:
            if one in self._ends:
                continue
            delivery = await self.client.find("deliveries", one)
            if delivery is None or delivery["state"] not in WAITING:
                # It may be forgotten meanwhile, with its day; then it had an end.
                self._ends[one] = delivery
            else:
                waiting.append(delivery)
        failed = [one for one in self._ends.values() if one and one["state"] == "failed"]
        reasons = Counter(_failure(one) for one in failed)
        reasons += Counter(
            _why_it_waits(one, self._routes.get(one["route"]), was_tried=self._was_tried(one))
            for one in waiting
        )
        open_ = [one for one in waiting if _is_open(self._routes.get(one["route"]))]
        return DeliveryOutcome(
            delivered=len(self._ends) - len(failed),
            failed=len(failed),
            waiting=len(waiting),
            moves=any(one["state"] == "in_progress" or not self._was_tried(one) for one in open_),
            is_running=any(one["state"] == "in_progress" for one in open_),
            is_late=bool(open_),
            reasons=reasons,
        )

    def _was_tried(self, delivery: Any) -> bool:
        return any(one["at"] >= self.since for one in delivery["history"])


@dataclass(slots=True)
class RerunWatch:
    """Looks at the sums of a rerun by a filter: more may go out than can be asked for one by one.

    One that is sent again by somebody else meanwhile is theirs to follow.
    """

    client: ApiSession
    rerun: Any
    total: int
    _: KW_ONLY
    # False: it is not known how many there are, as of events that any route may take.
    is_counted: bool

    async def look(self) -> DeliveryOutcome:
        """Ask for the sums of what is not delivered, and the first of them for their reasons."""
        which = {self.rerun["kind"]: self.rerun["id"]}
        page = await self.client.get("undelivered", **which, limit=ROWS_MAX)
        routes = await _routes(self.client)
        sums = {name: sum(row[name] for row in page["routes"]) for name in (*WAITING, "failed")}
        waiting = sum(sums[name] for name in WAITING)
        open_ = {
            row["route"] for row in page["routes"]
            if any(row[name] for name in WAITING) and _is_open(routes.get(row["route"]))
        }  # fmt: skip
        rows = [row for row in page["data"] if row["state"] in WAITING and row["route"] in open_]
        return DeliveryOutcome(
            delivered=self.total - sums["failed"] - waiting if self.is_counted else None,
            failed=sums["failed"],
            waiting=waiting,
            moves=bool(page["next"] and open_) or not all(self._was_tried(row) for row in rows),
            is_running=any(row["in_progress"] for row in page["routes"] if row["route"] in open_),
            is_late=bool(open_),
            reasons=Counter(self._reason(row, routes.get(row["route"])) for row in page["data"]),
        )

    def _was_tried(self, row: Any) -> bool:
        """Say whether it waits for another attempt: then it is due later than it was made due."""
        return row["state"] == "pending" and bool(row["due_at"] > self.rerun["changed_at"])

    def _reason(self, row: Any, route: Any) -> str:
        if row["state"] == "failed":
            return _failure(row)
        return _why_it_waits(row, route, was_tried=self._was_tried(row))


async def pending_by_route(
    client: ApiSession,
    route: str | None,
    *,
    since: str | None = None,
    until: str | None = None,
) -> list[str]:
    """Say what is pending already, and so is not sent again: what it waits for, and what to do."""
    page = await client.get("undelivered", route=route, since=since, until=until, limit=1)
    routes = await _routes(client)
    given = {"--since": since, "--until": until}
    narrowed = "".join(f" {name} {quote(value)}" for name, value in given.items() if value)
    return [
        f"{row['pending']:,} {'is' if row['pending'] == 1 else 'are'} pending already: "
        + _why_pending(routes.get(row["route"]), row["pending"], narrowed)
        for row in [
            one
            for one in page["routes"]
            # What is left of a removed route is no longer tried.
            if one["pending"] and one["route"] in routes
        ][:REASONS_MAX]
    ]


async def follow(show: Show, watch: Watch, *, moves: bool) -> None:
    """Show how many have an outcome, until all do, nothing moves any more, or the user leaves.

    The server goes on in any case; without one nothing moves, and one look is enough.

    Raises: typer.Exit(1) where something failed, or waits though its route is on.
    """
    outcome = await watch.look()
    looks_without_change = 0
    try:
        with show.progress() as progress:
            bar = progress.add_task("done", total=watch.total)
            progress.update(bar, completed=watch.total - outcome.waiting)
            while moves and _can_change(outcome, looks_without_change):
                await asyncio.sleep(LOOK_EVERY_S)
                before, outcome = outcome.waiting, await watch.look()
                looks_without_change = 0 if outcome.waiting < before else looks_without_change + 1
                progress.update(bar, completed=watch.total - outcome.waiting)
    except asyncio.CancelledError:
        show.say(f"{outcome.waiting:,} stay queued; see `mailonce undelivered`")
        raise
    _print(show, outcome)
    if outcome.failed or outcome.is_late:
        raise typer.Exit(CHECK_FAILED)


def _can_change(outcome: DeliveryOutcome, looks_without_change: int) -> bool:
    looks_max = RUNNING_LOOKS_MAX if outcome.is_running else LOOKS_MAX
    return bool(outcome.waiting) and outcome.moves and looks_without_change < looks_max


def _print(show: Show, outcome: DeliveryOutcome) -> None:
    parts = [] if outcome.delivered is None else [f"{outcome.delivered:,} delivered"]
    if outcome.failed or (outcome.waiting and not parts):
        parts.append(f"{outcome.failed:,} failed")
    if not parts and not outcome.waiting:
        # How many were delivered is not known where any route may take the events.
        parts.append("nothing failed, and nothing waits")
    waits = "waits" if outcome.waiting == 1 else "wait"
    parts += [f"{outcome.waiting:,} {waits}"] if outcome.waiting else []
    words = ", ".join(parts)
    reasons = list(outcome.reasons)[:REASONS_MAX]
    # What an endpoint answered is never taken for markup.
    if len(reasons) == 1:
        show.console.print(f"{words}: {reasons[0]}", markup=False)
    else:
        show.say(words)
        for reason in reasons:
            times = outcome.reasons[reason]
            often = f" ({times:,} times)" if times > 1 else ""
            show.console.print(f"  {reason}{often}", markup=False)
    if outcome.failed or outcome.waiting:
        show.say(SEE)


def next_attempt(delivery: Any, route: Any = None) -> str:
    """Say when a pending delivery is tried; `route` tells of its endpoint where it does not.

    While an endpoint is down, one delivery is tried at a time, which may be another one.
    """
    at = delivery["next_attempt_at"]
    # A server of before does not tell it of a delivery.
    is_down = delivery.get("endpoint_down", bool(route and route["endpoint_down"]))
    return "" if at is None else f"next attempt {moment(at)}{' or later' if is_down else ''}"


def next_attempt_time(row: Any) -> str | None:
    """Say when a delivery is tried; where its endpoint is down, when at the earliest."""
    at = row["next_attempt_at"]
    return f"{moment(at)} or later" if at and row.get("endpoint_down") else at


async def _routes(client: ApiSession) -> dict[str, Any]:
    return {one["id"]: one for one in (await client.get("routes"))["data"]}


def _is_open(route: Any) -> bool:
    """Say whether deliveries to a route are sent by themselves."""
    return route is not None and route["on"] and route["kind"] != RouteKind.POLL


def _closed(route: Any) -> str:
    if route is None:
        return "the route was removed"
    if not route["on"]:
        return f"route {route['name']} is off ({route['off_reason']})"
    return f"route {route['name']} is read by its consumer"


def _why_pending(route: Any, count: int, narrowed: str) -> str:
    if _is_open(route):
        if route["endpoint_down"]:
            return f"{route['name']}: {ENDPOINT_DOWN}"
        again = f"`mailonce redeliver --route {route['name']}{narrowed} --state pending`"
        them = "it" if count == 1 else "them"
        return f"{route['name']} is tried without you; {again} sends {them} now"
    is_off = route is not None and not route["on"]
    return _closed(route) + (f"; `mailonce route on {route['name']}`" if is_off else "")


def _why_it_waits(delivery: Any, route: Any, *, was_tried: bool) -> str:
    """Say what a delivery waits for; `was_tried`: since it was sent again."""
    if not _is_open(route):
        return _closed(route)
    if delivery["state"] == "in_progress":
        return f"{route['name']} has not answered yet"
    then = f"; {words}" if (words := next_attempt(delivery, route)) else ""
    if was_tried:
        return f"{_failure(delivery)}{then}"
    if route["endpoint_down"]:
        return f"endpoint {route['name']} is down{then}"
    again = "again " if delivery["attempts"] else ""
    return f"{route['name']} was not tried {again}yet{then}"


def _failure(delivery: Any) -> str:
    """Say what the last attempt met."""
    name = delivery["route_name"] or delivery["route"]
    if delivery["status"] is not None:
        return f"{name} answered {delivery['status']}"
    return f"{name}: {delivery['error'] or 'no answer'}"
