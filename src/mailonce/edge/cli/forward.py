"""Forward polled events to an endpoint on this machine, signed as deliveries are."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
import orjson

from mailonce.core.deliveries.route import RouteSecret
from mailonce.core.deliveries.signing import delivery_headers
from mailonce.tls import tls_fault

# An application that is being worked on restarts; that takes a moment.
WAITS_S = (0.5, 1.0, 2.0)
TIMEOUT_S = 30
# Stands in the line of an event, where an answer would.
NOT_REACHED = "not reached; start your application"


@dataclass(slots=True)
class ForwardedEvent:
    """One event, and the endpoint's last answer."""

    key: str
    cursor: int
    body: bytes
    route: str
    type: str
    recipient: str
    # When the last attempt was made; before the first one, when it came.
    at: str
    attempts: int = 0
    redeliveries: int = 0
    status: int | None = None
    error: str = ""
    latency_ms: int = 0

    @property
    def is_taken(self) -> bool:
        """Say whether the endpoint accepted it at the last attempt."""
        return self.status is not None and 200 <= self.status < 300

    @property
    def answer(self) -> str:
        if self.attempts == 0:
            return "…"
        return self.error if self.status is None else str(self.status)


def forwarded_event_of(item: Any) -> ForwardedEvent:
    """Read an event from a poll's answer; its body is forwarded unchanged."""
    event = item["event"]
    fields = event if isinstance(event, dict) else {}
    return ForwardedEvent(
        key=item["key"],
        cursor=item["cursor"],
        body=orjson.dumps(event),
        route=str(fields.get("route_id", "")),
        type=str(fields.get("type", "-")),
        recipient=str(fields.get("recipient") or "-"),
        at=_time_of_day(time.time()),
    )


def _time_of_day(now_s: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(now_s))


class Forwarder:
    """Posts events to one URL; `changed` is called whenever one has more to show."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        url: str,
        secret: str,
        changed: Callable[[ForwardedEvent], None],
        *,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._http = http
        self._url = url
        self._secrets = (RouteSecret(secret),)
        self._changed = changed
        self._now_s = now_s

    async def forward(self, event: ForwardedEvent) -> None:
        """Post an event; try again a few times where nobody answers or something broke."""
        for wait_s in (*WAITS_S, None):
            await self._post(event)
            is_passing = event.status is None or event.status >= 500
            if wait_s is None or not is_passing:
                break
            self._changed(event)
            await asyncio.sleep(wait_s)
        self._changed(event)

    async def redeliver(self, event: ForwardedEvent) -> None:
        """Post an event once more: the same bytes under the same key."""
        event.redeliveries += 1
        await self._post(event)
        self._changed(event)

    async def _post(self, event: ForwardedEvent) -> None:
        event.attempts += 1
        now_s = self._now_s()
        event.at = _time_of_day(now_s)
        headers = delivery_headers(
            event.key,
            event.body,
            self._secrets,
            route=event.route,
            attempt=event.attempts,
            redeliveries=event.redeliveries,
            now_ms=int(now_s * 1000),
        )
        began = time.monotonic()
        try:
            answer = await self._http.post(self._url, content=event.body, headers=headers)
        except httpx.ConnectError as error:
            fault = tls_fault(self._url, error)
            event.status, event.error = None, NOT_REACHED if fault is None else str(fault)
        except httpx.HTTPError as error:
            event.status, event.error = None, type(error).__name__
        else:
            event.status, event.error = answer.status_code, ""
        event.latency_ms = int((time.monotonic() - began) * 1000)
