"""Deliver: one attempt at one endpoint, signed afresh over the same bytes."""

from mailonce.clock import Clock
from mailonce.core.deliveries.route import Route
from mailonce.core.deliveries.signing import delivery_headers
from mailonce.core.redact import redacted
from mailonce.core.work.job import ANSWER_BYTES_MAX, ERROR_CHARS_MAX, AttemptOutcome, LeasedJob
from mailonce.core.work.response_outcome import (
    GATE_HEADER,
    GATE_PROCESSING,
    GATE_STATUS,
    retry_after_ms,
)
from mailonce.errors import ConfigError, RefusedError, UnavailableError
from mailonce.net.http import GuardedClient
from mailonce.net.response import EndpointResponse

# A secret that begins before the cut must be read to its end, or half of it would be kept.
READ_BYTES_MAX = ANSWER_BYTES_MAX + 512


async def deliver(
    client: GuardedClient, clock: Clock, route: Route, job: LeasedJob
) -> AttemptOutcome:
    """Post the body of a job to its route's endpoint, and give the outcome.

    Every failure of the endpoint is an outcome, not an exception.
    """
    assert job.body is not None, "a job without a body is not delivered"
    now_ms = clock.now_ms()
    try:
        answer = await client.post(
            route.url,
            job.body,
            headers_of(route, job, job.body, now_ms=now_ms),
            bytes_max=READ_BYTES_MAX,
            timeout_s=route.timeout_s,
        )
    except (RefusedError, ConfigError) as error:
        return AttemptOutcome(error=str(error)[:ERROR_CHARS_MAX], refused=True)
    except UnavailableError as error:
        return AttemptOutcome(error=str(error)[:ERROR_CHARS_MAX])
    return _outcome(route, answer, now_ms=now_ms)


def headers_of(route: Route, job: LeasedJob, body: bytes, *, now_ms: int) -> dict[str, str]:
    """Give the headers of an attempt; the route's own never replace ours."""
    headers = delivery_headers(
        job.key.hex(),
        body,
        route.secrets,
        route=route.id,
        attempt=job.attempt,
        redeliveries=job.redeliveries,
        now_ms=now_ms,
    )
    if not route.headers:
        return headers
    return {**{name.lower(): value for name, value in route.headers.items()}, **headers}


def _outcome(route: Route, answer: EndpointResponse, *, now_ms: int) -> AttemptOutcome:
    status, kept = answer.status, answer.body
    if kept:
        secrets = (*(secret.value for secret in route.secrets), *route.headers.values())
        kept = redacted(kept, secrets)[:ANSWER_BYTES_MAX]
    if 200 <= status < 300 and status != GATE_STATUS:
        return AttemptOutcome(status=status, answer=kept)
    headers = answer.headers
    processing = status == GATE_STATUS and headers.get(GATE_HEADER, "").lower() == GATE_PROCESSING
    return AttemptOutcome(
        status=status,
        error=_error_of(status, processing=processing),
        answer=kept,
        retry_after_ms=retry_after_ms(headers.get("retry-after"), now_ms=now_ms),
        processing=processing,
    )


def _error_of(status: int, *, processing: bool) -> str | None:
    if processing:
        return "the receiver is still processing it"
    if 200 <= status < 300:
        return None
    if 300 <= status < 400:
        return f"answered {status}; redirects are not followed"
    return f"answered {status}"
