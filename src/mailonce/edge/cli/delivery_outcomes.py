"""What became of deliveries that were sent again: followed until each has an outcome."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Annotated, Any, Protocol

import typer

from mailonce.core.deliveries.route import RouteKind
from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.exits import CHECK_FAILED
from mailonce.edge.cli.show import Show, one_word

LOOK_EVERY_S = 0.5
# After so many looks at which nothing had moved, there is nothing to follow; an attempt that is
# being made may take longer.
LOOKS_MAX = 6
RUNNING_LOOKS_MAX = 60
REASONS_MAX = 5
WAITING = ("pending", "in_progress")
Detach = Annotated[bool, typer.Option("--detach", help="return at once; the server goes on")]
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
        reasons += Counter(self._why_it_waits(one) for one in waiting)
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

    def _why_it_waits(self, delivery: Any) -> str:
        route: Any = self._routes.get(delivery["route"])
        if not _is_open(route):
            return _closed(route)
        if delivery["state"] == "in_progress":
            return f"{route['name']} has not answered yet"
        at = delivery["next_attempt_at"]
        then = "" if at is None else f"; next attempt {one_word(at)}"
        if self._was_tried(delivery):
            return f"{_failure(delivery)}{then}"
        if route["endpoint_down"]:
            return f"endpoint {route['name']} is down{then}"
        return f"{route['name']} was not tried yet{then}"


@dataclass(slots=True)
class RouteWatch:
    """Looks at the sums of a route, or of all: more went out than can be asked for one by one.

    What else fails there at the same time counts as well.
    """

    client: ApiSession
    route: str | None
    total: int
    _: KW_ONLY
    # How many had failed there before, and were not sent again.
    failed_before: int
    is_counted: bool

    async def look(self) -> DeliveryOutcome:
        """Ask for the sums."""
        sums = await backlog(self.client, self.route)
        routes = await _routes(self.client)
        failed = min(self.total, max(0, sums["failed"] - self.failed_before))
        waiting = min(self.total - failed, sum(sums[state] for state in WAITING))
        waits_at = [one for one in sums["routes"] if any(one[state] for state in WAITING)]
        open_ = [one for one in waits_at if _is_open(routes.get(one["route"]))]
        newest = await self.client.get("undelivered", route=self.route, state="failed", limit=100)
        reasons = Counter(_failure(one) for one in newest["data"]) if failed else Counter[str]()
        reasons += Counter(
            _closed(routes.get(one["route"])) for one in waits_at if one not in open_
        )
        return DeliveryOutcome(
            delivered=self.total - failed - waiting if self.is_counted else None,
            failed=failed,
            waiting=waiting,
            moves=bool(open_),
            is_running=any(one["in_progress"] for one in open_),
            is_late=bool(waiting and open_),
            reasons=dict.fromkeys(reasons, 1),
        )


async def backlog(client: ApiSession, route: str | None) -> Any:
    """Read how many deliveries wait and have failed, of a route or of all."""
    rows = (await client.get("undelivered", route=route, limit=1))["routes"]
    sums = {state: sum(row[state] for row in rows) for state in (*WAITING, "failed")}
    return {**sums, "routes": rows}


async def say_pending(
    client: ApiSession,
    show: Show,
    route: str | None,
    *,
    since: str | None = None,
    until: str | None = None,
) -> None:
    """Where nothing is to be sent again, say what is pending already, and what it waits for."""
    page = await client.get("undelivered", route=route, since=since, until=until, limit=1)
    routes = await _routes(client)
    for row in [one for one in page["routes"] if one["pending"]][:REASONS_MAX]:
        are = "is" if row["pending"] == 1 else "are"
        why = _why_pending(routes.get(row["route"]))
        line = f"{row['pending']:,} {are} pending already: {why}"
        # The reason why a route is off is never taken for markup.
        show.console.print(line, markup=False, soft_wrap=True)


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


async def _routes(client: ApiSession) -> dict[str, Any]:
    return {one["id"]: one for one in (await client.get("routes"))["data"]}


def _is_open(route: Any) -> bool:
    """Say whether deliveries to a route are sent by themselves."""
    return route is not None and route["on"] and route["kind"] != RouteKind.POLL


def _closed(route: Any) -> str:
    if route is None:
        return "the route is gone"
    if not route["on"]:
        return f"route {route['name']} is off ({route['off_reason']})"
    return f"route {route['name']} is read by its consumer"


def _why_pending(route: Any) -> str:
    if _is_open(route):
        return f"{route['name']} is tried without you; see `mailonce undelivered`"
    is_off = route is not None and not route["on"]
    return _closed(route) + (f"; `mailonce route on {route['name']}`" if is_off else "")


def _failure(delivery: Any) -> str:
    """Say what the last attempt met."""
    name = delivery["route_name"] or delivery["route"]
    if delivery["status"] is not None:
        return f"{name} answered {delivery['status']}"
    return f"{name}: {delivery['error'] or 'no answer'}"
