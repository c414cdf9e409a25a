"""Narrow an expectation: whoever works with it may ask for less, never for more."""

from collections.abc import Sequence

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from mailonce.core.argument_error import ArgumentAccessError, ArgumentError
from mailonce.core.expectations.expectation import DEADLINE_S_MAX, Expectation, ExpectationPolicy
from mailonce.core.expectations.expectation_request import (
    ExpectationRequest,
    policy_of,
    read_link_hosts,
    read_senders,
)
from mailonce.core.expectations.link_host import is_within, read_link_host


class NarrowRequest(Struct, frozen=True, kw_only=True):
    """What is to be narrower; what is left out stays as it is."""

    senders: tuple[str, ...] | UnsetType = UNSET
    subject_contains: tuple[str, ...] | UnsetType = UNSET
    code_format: str | UnsetType = UNSET
    link_hosts: tuple[str, ...] | UnsetType = UNSET
    states: tuple[str, ...] | UnsetType = UNSET
    require_dmarc: bool | UnsetType = UNSET
    deadline_s: float | UnsetType = UNSET
    resends: int | UnsetType = UNSET


def narrow(expectation: Expectation, request: NarrowRequest) -> Expectation:
    """Give the expectation with a narrower policy; `deadline_s` counts from when it was opened.

    Raises: ArgumentAccessError where a part would be wider, ArgumentError where it makes no sense.
    """
    old = expectation.policy
    policy = ExpectationPolicy(
        kind=old.kind,
        senders=_senders(old.senders, request.senders),
        subject_contains=_words(old.subject_contains, request.subject_contains),
        code_format=_format(old.code_format, request.code_format),
        link_hosts=_hosts(old.link_hosts, request.link_hosts),
        only_candidate=old.only_candidate,
        states=_states(old.states, request.states),
        require_dmarc=_demand(demanded=old.require_dmarc, wanted=request.require_dmarc),
        any_age=old.any_age,
    )
    deadline_ms = expectation.deadline_ms
    if request.deadline_s is not UNSET:
        if not 1 <= request.deadline_s <= DEADLINE_S_MAX:
            raise ArgumentError(
                f"`deadline_s` is {request.deadline_s:g}; use 1 to {DEADLINE_S_MAX}"
            )
        wanted_ms = expectation.opened_ms + int(request.deadline_s * 1000)
        _permit("deadline_s", is_narrower=wanted_ms <= deadline_ms)
        deadline_ms = wanted_ms
    resends = expectation.resends
    if request.resends is not UNSET:
        _permit("resends", is_narrower=request.resends <= resends)
        resends = max(request.resends, expectation.granted)
    _check(policy, deadline_ms - expectation.opened_ms, resends)
    return replace(expectation, policy=policy, deadline_ms=deadline_ms, resends=resends)


def _check(policy: ExpectationPolicy, deadline_ms: int, resends: int) -> None:
    """See that what is left makes sense, by the rules for new ones."""
    fields = {name: getattr(policy, name) for name in policy.__struct_fields__}
    # It follows from where the mail that counts begins, which cannot be narrowed.
    del fields["any_age"]
    policy_of(ExpectationRequest(**fields, deadline_s=deadline_ms / 1000, resends=resends))


def _senders(old: Sequence[str], wanted: tuple[str, ...] | UnsetType) -> tuple[str, ...]:
    if isinstance(wanted, UnsetType):
        return tuple(old)
    new = read_senders(wanted)
    covered = all(one in old or f"@{one.rpartition('@')[2]}" in old for one in new)
    _permit("senders", is_narrower=not old or (bool(new) and covered))
    return new


def _words(old: Sequence[str], wanted: tuple[str, ...] | UnsetType) -> tuple[str, ...]:
    """All words must stand in a subject, so that further ones ask for less."""
    return tuple(old) if isinstance(wanted, UnsetType) else tuple(dict.fromkeys([*old, *wanted]))


def _format(old: str | None, wanted: str | UnsetType) -> str | None:
    if isinstance(wanted, UnsetType):
        return old
    _permit("code_format", is_narrower=old in (None, wanted))
    return wanted


def _hosts(old: Sequence[str], wanted: tuple[str, ...] | UnsetType) -> tuple[str, ...]:
    if isinstance(wanted, UnsetType):
        return tuple(old)
    new = read_link_hosts(wanted)
    rules = [read_link_host(one) for one in old]
    covered = all(any(is_within(read_link_host(one), rule) for rule in rules) for one in new)
    _permit("link_hosts", is_narrower=covered)
    return new


def _states(old: Sequence[str], wanted: tuple[str, ...] | UnsetType) -> tuple[str, ...]:
    if isinstance(wanted, UnsetType):
        return tuple(old)
    _permit("states", is_narrower=set(wanted) <= set(old))
    return wanted


def _demand(*, demanded: bool, wanted: bool | UnsetType) -> bool:
    if isinstance(wanted, UnsetType):
        return demanded
    _permit("require_dmarc", is_narrower=wanted or not demanded)
    return wanted


def _permit(name: str, *, is_narrower: bool) -> None:
    if not is_narrower:
        raise ArgumentAccessError(
            f"`{name}` would be wider than it is; an expectation is narrowed only"
        )
