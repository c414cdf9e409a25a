"""What an event becomes for a route: nothing, a body, or the reason why it could make none."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mailonce.core.deliveries import expression
from mailonce.core.deliveries.delivery import plain_body, unroutable_body
from mailonce.core.deliveries.mail_filter import with_files
from mailonce.core.deliveries.route import Route, Unroutable, mapped_body, takes
from mailonce.core.events.event import Event


def steps_max_of(routes: Iterable[Route]) -> int:
    """Give the budget of steps that each expression of a workspace's routes has for one event."""
    return expression.steps_of(sum(1 for route in routes if route.expression))


def body_for(
    route: Route,
    source: str,
    event: Event,
    show: Callable[[], Mapping[str, Any]],
    *,
    steps_max: int,
) -> bytes | None:
    """Freeze what a route is sent of an event; None where it does not take it.

    Where the route's own expression or mapping fails, that is what it is owed: the failure is seen
    where its deliveries are, and neither the event nor another route is touched by it.
    """
    taken = takes(route, source, event, show, steps_max=steps_max)
    if taken is False:
        return None
    made: bytes | Unroutable
    if isinstance(taken, Unroutable):
        made = taken
    elif route.is_plain:
        sent = show()
        if event.files:
            sent = with_files(sent, event.files, bytes_max=route.inline_bytes_max)
        made = plain_body(sent, route.id)
    else:
        made = mapped_body(route, {**show(), "route_id": route.id})
    if isinstance(made, Unroutable):
        return unroutable_body(show(), route.id, made.reason)
    return made
