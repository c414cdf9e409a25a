"""The response to each decision: in the seed's status codes, or in those of the IETF draft."""

import json
import logging
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, assert_never

from mailonce.gate.rules.decision import Conflict, Replay, Running
from mailonce.gate.rules.http import Headers, Response
from mailonce.gate.rules.keys import UNREAD_ID, BadKey
from mailonce.gate.rules.policy import AUTHORIZATION, Policy

log = logging.getLogger("mailonce.gate")
REPLAYED = ("idempotent-replayed", "true")
PROCESSING = ("x-mailonce-gate", "processing")
# HTTP requires that a 401 names the authentication scheme.
CHALLENGE = ("www-authenticate", 'Signature realm="mailonce"')


class Outcome(StrEnum):
    """The outcome of a request, for counting."""

    FIRST = "first"  # ran, and its response is recorded
    FAILED = "failed"  # ran, and may be tried again
    ACCEPTED = "accepted"  # owed, and will be finished by a worker
    REPLAYED = "replayed"
    CONFLICT = "conflict"
    RUNNING = "running"
    BAD_KEY = "bad_key"
    UNPROVEN = "unproven"
    TOO_LARGE = "too_large"
    UNAVAILABLE = "unavailable"
    UNGATED = "ungated"  # ran without a key, where the policy allows it


@dataclass(frozen=True, slots=True)
class Answer:
    """The response to send, and why."""

    outcome: Outcome
    response: Response


@dataclass(frozen=True, slots=True)
class Unproven:
    """The signature does not hold."""

    reason: str


@dataclass(frozen=True, slots=True)
class TooLarge:
    """The body is above the limit."""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """The store does not answer, or the outcome of its commit is unknown."""


Refusal = Replay | Conflict | Running | BadKey | Unproven | TooLarge | Unavailable


def answer(policy: Policy, refusal: Refusal, *, finishes: bool = False) -> Answer:
    """Say why the request does not run now; `finishes`: the gate will end the work by itself."""
    match refusal:
        case Replay(response=kept):
            headers = (*kept.headers, REPLAYED)
            return Answer(Outcome.REPLAYED, Response(kept.status, kept.body, headers))
        case Conflict(fields=fields):
            return _conflict(policy, fields)
        case Running():
            return _running(policy, finishes=finishes)
        case BadKey(reason=reason):
            if refusal is UNREAD_ID:
                log.warning("%s", reason)
            return Answer(Outcome.BAD_KEY, _problem(policy, 400, reason))
        case Unproven(reason=reason):
            return Answer(Outcome.UNPROVEN, _problem(policy, 401, reason, (CHALLENGE,)))
        case TooLarge():
            reason = f"the body is above {policy.body_bytes_max} bytes"
            return Answer(Outcome.TOO_LARGE, _problem(policy, 413, reason))
        case Unavailable():
            reason = "idempotency record unavailable"
            return Answer(Outcome.UNAVAILABLE, _problem(policy, 503, reason, _later(policy)))
        case _:
            assert_never(refusal)


def accepted(policy: Policy) -> Answer:
    """Say that the gate itself will finish the work."""
    return Answer(Outcome.ACCEPTED, _running(policy, finishes=True).response)


def _conflict(policy: Policy, fields: tuple[str, ...]) -> Answer:
    status = 409 if policy.answers == "seed" else 422
    reason = "idempotency key reused with a different payload"
    if AUTHORIZATION in fields:
        log.warning("a key came again with another Authorization header; set Policy(caller=…)")
    return Answer(Outcome.CONFLICT, _problem(policy, status, reason, fields=list(fields)))


def _running(policy: Policy, *, finishes: bool) -> Answer:
    reason = "a request with this key is being processed"
    if finishes:
        response = Response.json(202, {"status": "processing"}, (PROCESSING, *_later(policy)))
    elif policy.answers == "ietf":
        response = _problem(policy, 409, reason, _later(policy))
    elif policy.running == "accepted":
        response = Response.json(202, {"status": "processing"})
    else:
        # A plain 202 would end the sender's retries, and a crash of the first would lose the event.
        response = _problem(policy, 503, reason, _later(policy))
    return Answer(Outcome.RUNNING, response)


def _later(policy: Policy) -> Headers:
    return (("retry-after", str(policy.retry_after_s)),)


def _problem(
    policy: Policy, status: int, reason: str, headers: Headers = (), **more: Any
) -> Response:
    if policy.answers == "seed":
        return Response.json(status, {"error": reason, **more}, headers)
    value = {"type": "about:blank", "title": reason, "status": status, **more}
    kind = ("content-type", "application/problem+json")
    return Response(status, json.dumps(value).encode(), (kind, *headers))
