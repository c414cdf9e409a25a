"""Certify: send a receiver good and bad probes, and grade its answers."""

import asyncio
from collections.abc import AsyncIterator

from mailonce.clock import Clock
from mailonce.core.deliveries.certify import (
    SECRET_BYTES,
    Certificate,
    ProbeKind,
    ProbeRequest,
    ProbeResponse,
    certify,
    request_of,
)
from mailonce.core.deliveries.route import Route, RouteKind
from mailonce.errors import MailonceError, RefusedError
from mailonce.net.http import GuardedClient

TIMEOUT_S_MAX = 10.0
ANSWER_BYTES_MAX = 4_096
PIECES = 8


async def certify_route(client: GuardedClient, clock: Clock, route: Route) -> Certificate:
    """Probe a route's endpoint, one request after the other, each on its own connection.

    Probes carry X-Mailonce-Probe and the type `other`; nothing of them is recorded here.
    Raises: RefusedError where the route posts nothing.
    """
    if route.kind is not RouteKind.WEBHOOK:
        raise RefusedError(f"route {route.name!r} posts nothing, so there is no receiver to test")
    run, began_ms = clock.chance(SECRET_BYTES), clock.now_ms()
    answers: dict[ProbeKind, ProbeResponse] = {}
    good = b""
    for probe in ProbeKind:
        request = request_of(probe, route, run=run, began_ms=began_ms, now_ms=clock.now_ms())
        good = good or request.body
        if probe is ProbeKind.CHANGED and request.body == good:
            # The route's own mapping leaves out what was changed: it would be a second copy.
            continue
        answers[probe] = await _send(client, clock, route, request)
        if not answers[ProbeKind.GOOD].is_taken:
            # A receiver that refuses everything also refuses forgeries: that proves nothing.
            break
    return certify(answers)


async def _send(
    client: GuardedClient, clock: Clock, route: Route, request: ProbeRequest
) -> ProbeResponse:
    body = _drip(request) if request.over_s else request.body
    timeout_s = min(route.timeout_s, TIMEOUT_S_MAX) + request.over_s
    began = clock.monotonic()
    try:
        # Not on a connection of an earlier probe: many servers close theirs after a crash (500),
        # and what was not seen would be judged.
        answer = await client.call(
            "POST",
            route.url,
            body,
            request.headers,
            bytes_max=ANSWER_BYTES_MAX,
            connect_timeout_s=timeout_s,
            timeout_s=timeout_s,
        )
    except MailonceError as error:
        return ProbeResponse(None, _since(clock, began), str(error))
    return ProbeResponse(answer.status, _since(clock, began))


async def _drip(request: ProbeRequest) -> AsyncIterator[bytes]:
    size = -(-len(request.body) // PIECES)
    for start in range(0, len(request.body), size):
        yield request.body[start : start + size]
        await asyncio.sleep(request.over_s / PIECES)


def _since(clock: Clock, began: float) -> int:
    return int((clock.monotonic() - began) * 1000)
