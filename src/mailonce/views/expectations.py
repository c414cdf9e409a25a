"""Expectations and consumptions as users see them; an agent's view is made of these."""

from typing import Any, cast

from typing_extensions import TypedDict

from mailonce.core.access import Caller, Scope
from mailonce.core.expectations.agent_view import agent_view, sender_for_agent
from mailonce.core.expectations.consumption import Consumption
from mailonce.core.expectations.expectation import Expectation, ExpectationPolicy
from mailonce.core.expectations.redemption import Redemption
from mailonce.core.expectations.resend import ResendDecision, resends_left
from mailonce.core.expectations.settle import Offer, Settlement, counted
from mailonce.core.ids import public
from mailonce.core.moment import moment
from mailonce.store.expectations.standing import ExpectationStanding


class GuardJson(TypedDict):
    """Where a link leads, and whether it may be followed."""

    verdict: str | None
    reason: str | None
    host: str | None


class ArtifactJson(TypedDict):
    """An artifact without its value. An agent's key sees the sender as the policy names it."""

    id: str
    kind: str
    sender: str | None
    received_at: str
    guard: GuardJson | None


class ValueJson(ArtifactJson):
    """An artifact with its value."""

    value: str | None


class ExpectationJson(TypedDict):
    """An expectation and how it stands; an agent's key does not get the words of the policy.

    `waiting`: mail may still come for it, so that a wait goes on.
    """

    id: str
    inbox: str
    address: str
    kind: str
    senders: list[str]
    subject_contains: list[str]
    code_format: str | None
    link_hosts: list[str]
    only_candidate: bool
    states: list[str]
    require_dmarc: bool
    state: str
    reason: str
    waiting: bool
    opened_at: str
    deadline_at: str
    resends: int
    resends_left: int
    candidates: int
    mails: int
    artifact: ArtifactJson | None
    consumption: str | None


class ConsumedJson(TypedDict):
    """What was consumed, under which lease; `token` is higher with each consumption of it."""

    artifact: ValueJson
    consumption: str
    token: int
    consumed_at: str
    lease_until: str
    # Null until the value is confirmed.
    confirmed_at: str | None
    state: str


class RedemptionJson(TypedDict):
    """What became of the one request: the status, and the host that answered last."""

    state: str
    status: int | None
    host: str | None
    hops: int
    reason: str | None


class ResendJson(TypedDict):
    """Whether a resend may be triggered; if not, `wait_s` says when to ask again."""

    granted: bool
    reason: str
    resends_left: int
    wait_s: float | None


class ConsumptionJson(TypedDict):
    """Who consumed what, and what became of it; never the value."""

    id: str
    expectation: str
    artifact: str
    by: str
    token: int
    state: str
    consumed_at: str
    lease_until: str
    ended_at: str | None
    redemption: RedemptionJson | None


def shown_to(caller: Caller, shown: Any, policy: ExpectationPolicy | None = None) -> Any:
    """Give what a caller may see: an agent's key nothing but what its grammar lets through."""
    if caller.scope is not Scope.AGENT:
        return shown
    return agent_view(shown, states=() if policy is None else policy.states)


def expectation_json(
    caller: Caller, known: ExpectationStanding, settled: Settlement
) -> ExpectationJson:
    """Write an expectation as it stands."""
    expectation, policy = known.expectation, known.expectation.policy
    matched = counted(known.mails)
    shown = {
        **_head(expectation),
        "state": str(settled.state),
        "reason": settled.reason,
        "waiting": settled.is_waiting,
        "resends_left": resends_left(expectation, matched),
        "candidates": settled.candidates,
        "mails": matched,
        "artifact": None if settled.offer is None else artifact_json(caller, policy, settled.offer),
        "consumption": None if settled.holder is None else public("con", settled.holder.id),
    }
    return cast("ExpectationJson", shown)


def standing_of_new(expectation: Expectation) -> tuple[ExpectationStanding, Settlement]:
    """Give how an expectation stands when it is opened: no mail was read for it yet."""
    known = ExpectationStanding(expectation, [], [], is_reading=False)
    return known, known.settle(now_ms=expectation.opened_ms)


def artifact_json(caller: Caller, policy: ExpectationPolicy, offer: Offer) -> ArtifactJson:
    """Write an artifact without its value."""
    match, candidate = offer.match, offer.candidate
    sender = match.sender
    guard: GuardJson | None = None
    if candidate.guard is not None:
        guard = {
            "verdict": candidate.guard,
            "reason": candidate.guard_reason,
            "host": candidate.host,
        }
    is_agent = caller.scope is Scope.AGENT
    return {
        "id": public("art", candidate.artifact),
        "kind": str(policy.kind),
        "sender": sender_for_agent(sender, policy.senders) if is_agent else sender or None,
        "received_at": moment(match.received_ms),
        "guard": guard,
    }


def consumed_json(
    caller: Caller,
    policy: ExpectationPolicy,
    consumption: Consumption,
    offer: Offer | None,
    value: str,
) -> ConsumedJson:
    """Write a value that was handed out."""
    artifact: ArtifactJson = (
        artifact_json(caller, policy, offer)
        if offer is not None and offer.candidate.artifact == consumption.artifact
        else {
            "id": public("art", consumption.artifact),
            "kind": str(policy.kind),
            "sender": None,
            "received_at": moment(consumption.leased_ms),
            "guard": None,
        }
    )
    return {
        "artifact": {**artifact, "value": value},
        "consumption": public("con", consumption.id),
        "token": consumption.token,
        "consumed_at": moment(consumption.leased_ms),
        "lease_until": moment(consumption.lease_ms),
        "confirmed_at": moment(consumption.confirmed_ms),
        "state": "consumed",
    }


def consumption_json(consumption: Consumption, *, now_ms: int) -> ConsumptionJson:
    """Write who consumed what."""
    redemption = consumption.redemption
    return {
        "id": public("con", consumption.id),
        "expectation": public("exp", consumption.expectation),
        "artifact": public("art", consumption.artifact),
        "by": consumption.by,
        "token": consumption.token,
        "state": str(consumption.at(now_ms)),
        "consumed_at": moment(consumption.leased_ms),
        "lease_until": moment(consumption.lease_ms),
        "ended_at": moment(consumption.ended_ms),
        "redemption": None if redemption is None else redemption_json(redemption, now_ms=now_ms),
    }


def redemption_json(redemption: Redemption, *, now_ms: int) -> RedemptionJson:
    """Write what became of a request."""
    return {
        "state": str(redemption.at(now_ms)),
        "status": redemption.status,
        "host": redemption.host,
        "hops": redemption.hops,
        "reason": redemption.reason,
    }


def resend_json(decision: ResendDecision) -> ResendJson:
    """Write whether a resend is granted."""
    return {
        "granted": decision.granted,
        "reason": str(decision.reason),
        "resends_left": decision.left,
        "wait_s": decision.wait_s,
    }


def _head(expectation: Expectation) -> dict[str, Any]:
    policy = expectation.policy
    return {
        "id": public("exp", expectation.id),
        "inbox": expectation.inbox,
        "address": expectation.address,
        "kind": str(policy.kind),
        "for": expectation.subject,
        "senders": list(policy.senders),
        "subject_contains": list(policy.subject_contains),
        "code_format": policy.code_format,
        "link_hosts": list(policy.link_hosts),
        "only_candidate": policy.only_candidate,
        "states": list(policy.states),
        "require_dmarc": policy.require_dmarc,
        "opened_at": moment(expectation.opened_ms),
        "deadline_at": moment(expectation.deadline_ms),
        "resends": expectation.resends,
    }
