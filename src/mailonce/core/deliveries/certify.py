"""Certify a receiver: the probes to send, the answers to expect, and the grade they give.

Pure. Nothing here knows how a request travels; `pipeline/certify.py` does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mailonce.core.deliveries.delivery import key_of, plain_body, shown_event, unroutable_body
from mailonce.core.deliveries.route import Route, RouteSecret, Unroutable, mapped_body
from mailonce.core.deliveries.signing import delivery_headers, new_secret
from mailonce.core.events.event import Event, EventType
from mailonce.core.events.key import Identity, Key, Recipe
from mailonce.core.ids import EventId

PROBE_HEADER = "x-mailonce-probe"
STALE_S = 3_600
SLOW_S = 2.0
QUICK_MS = 1_000
BEARABLE_MS = 5_000
SECRET_BYTES = 32


class Grade(StrEnum):
    """The grade of an answer; a receiver's grade is its worst."""

    A = "A"
    B = "B"
    C = "C"
    D = "D"
    F = "F"


class ProbeKind(StrEnum):
    """What is sent, in this order."""

    GOOD = "good"
    DUPLICATE = "duplicate"
    CHANGED = "changed"
    UNSIGNED = "unsigned"
    FORGED = "forged"
    STALE = "stale"
    SLOW = "slow"


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """A request to send; `over_s` is how long its body takes to arrive."""

    headers: Mapping[str, str]
    body: bytes
    over_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ProbeResponse:
    """A receiver's answer: its status, or the error where there was none."""

    status: int | None
    latency_ms: int
    error: str = ""

    @property
    def is_taken(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def is_refused(self) -> bool:
        return self.status is not None and 400 <= self.status < 500

    @property
    def words(self) -> str:
        return f"answered {self.status}" if self.status is not None else self.error


@dataclass(frozen=True, slots=True)
class CertificateCheck:
    """One check: the observation, its grade, and what to do."""

    check: str
    grade: Grade
    detail: str
    advice: str


@dataclass(frozen=True, slots=True)
class Certificate:
    """A receiver's grade, and why."""

    grade: Grade
    findings: Sequence[CertificateCheck]


NOTHING_TO_DO = "nothing to do"
# A probe is no event: nobody claims its key.
_NO_IDENTITY = Identity(Recipe(name="probe", version=1, identity=()), {})


def request_of(
    probe: ProbeKind, route: Route, *, run: bytes, began_ms: int, now_ms: int
) -> ProbeRequest:
    """Write the request of a probe.

    `run` is random and different for each certification; `began_ms` is when that began, so that
    a copy has the same body.
    """
    assert len(run) == SECRET_BYTES, f"a run takes {SECRET_BYTES} random bytes"
    # The good one, its copy and its changed twin share a key; every other has one of its own.
    chance = (
        run
        if probe in {ProbeKind.GOOD, ProbeKind.DUPLICATE, ProbeKind.CHANGED}
        else _other(run, probe)
    )
    identity = Key(chance[:16])
    key = key_of(identity.hex(), route.id)
    reason = "a changed probe" if probe is ProbeKind.CHANGED else "a probe"
    body = _body(route, identity, reason, received_ms=began_ms)
    secrets = route.secrets
    if probe is ProbeKind.FORGED:
        secrets = (RouteSecret(new_secret(_other(run, probe))),)
    elif probe is ProbeKind.UNSIGNED:
        secrets = ()
    signed_ms = now_ms - STALE_S * 1000 if probe is ProbeKind.STALE else now_ms
    attempt = 2 if probe is ProbeKind.DUPLICATE else 1
    headers = {
        **{name.lower(): value for name, value in route.headers.items()},
        **delivery_headers(
            key.hex(), body, secrets, route=route.id, attempt=attempt, now_ms=signed_ms
        ),
        "content-length": str(len(body)),
        PROBE_HEADER: probe.value,
    }
    return ProbeRequest(headers, body, SLOW_S if probe is ProbeKind.SLOW else 0.0)


def certify(answers: Mapping[ProbeKind, ProbeResponse]) -> Certificate:
    good = answers[ProbeKind.GOOD]
    findings = [_of_good(good)]
    if good.is_taken:
        findings += [_judge(probe, answers[probe]) for probe in _EXPECTATIONS if probe in answers]
        findings.append(_of_speed(answers))
    # The letters sort as the grades do.
    return Certificate(max(finding.grade for finding in findings), findings)


def _of_good(good: ProbeResponse) -> CertificateCheck:
    if good.is_taken:
        return CertificateCheck("good", Grade.A, good.words, NOTHING_TO_DO)
    if good.status is None:
        advice = "see that the endpoint runs and can be reached from here; nothing else was judged"
    elif good.status in {401, 403}:
        advice = "give the endpoint this route's secret; nothing else was judged"
    elif 300 <= good.status < 400:
        advice = "set the route's URL to where it leads: no redirect is followed"
    else:
        advice = "answer 2xx to what is signed and new; nothing else was judged"
    return CertificateCheck("good", Grade.F, good.words, advice)


# A grade, and what to do.
_Judgement = tuple[Grade, str]


@dataclass(frozen=True, slots=True)
class _Expectation:
    """What each answer to a probe is worth: 2xx, 4xx, or anything else."""

    probe: str
    taken: _Judgement
    refused: _Judgement
    other: _Judgement


_GOOD: _Judgement = (Grade.A, NOTHING_TO_DO)
_REPEAT = (Grade.D, "answer a copy as you answered the first, or it is sent again for days")
_BIND = (Grade.C, "bind X-Idempotency-Key to the content; mailonce.gate does it for you")
_PROVE = (Grade.F, "check webhook-signature before anything else; mailonce.gate does it for you")
_BE_FRESH = (Grade.D, "refuse a webhook-timestamp that is more than five minutes off")
_BE_PATIENT = (Grade.C, "let a request take ten seconds to arrive; networks stall")
_SAY_409 = (Grade.B, "refuse it with 409, not with an error of yours")
_SAY_401 = (Grade.B, "refuse it with 401, not with an error of yours")

_EXPECTATIONS: Mapping[ProbeKind, _Expectation] = {
    ProbeKind.DUPLICATE: _Expectation("a copy", _GOOD, _REPEAT, _REPEAT),
    ProbeKind.CHANGED: _Expectation("other content under a known key", _BIND, _GOOD, _SAY_409),
    ProbeKind.UNSIGNED: _Expectation("no signature", _PROVE, _GOOD, _SAY_401),
    ProbeKind.FORGED: _Expectation("a wrong signature", _PROVE, _GOOD, _SAY_401),
    ProbeKind.STALE: _Expectation("a signature an hour old", _BE_FRESH, _GOOD, _SAY_401),
    ProbeKind.SLOW: _Expectation(
        f"a body that takes {SLOW_S:g} s to arrive", _GOOD, _BE_PATIENT, _BE_PATIENT
    ),
}


def _judge(probe: ProbeKind, answer: ProbeResponse) -> CertificateCheck:
    expected = _EXPECTATIONS[probe]
    grade, advice = expected.other
    if answer.is_taken:
        grade, advice = expected.taken
    elif answer.is_refused:
        grade, advice = expected.refused
    return CertificateCheck(probe.value, grade, f"{expected.probe}: {answer.words}", advice)


def _of_speed(answers: Mapping[ProbeKind, ProbeResponse]) -> CertificateCheck:
    slowest = max(
        answer.latency_ms for probe, answer in answers.items() if probe is not ProbeKind.SLOW
    )
    detail = f"the slowest answer took {slowest:,} ms"
    if slowest <= QUICK_MS:
        return CertificateCheck("speed", Grade.A, detail, NOTHING_TO_DO)
    advice = "store the event, answer, and do the work behind it"
    return CertificateCheck("speed", Grade.B if slowest <= BEARABLE_MS else Grade.D, detail, advice)


def _other(run: bytes, probe: ProbeKind) -> bytes:
    """Derive other random bytes for one probe of a run."""
    return bytes(byte ^ (list(ProbeKind).index(probe) + 1) for byte in run)


def _body(route: Route, identity: Key, reason: str, *, received_ms: int) -> bytes:
    event = Event(type=EventType.OTHER, identity=_NO_IDENTITY, reason=reason)
    shown = shown_event(
        event,
        id_=EventId(identity),
        key=identity,
        source="probe",
        account="mailonce/probe",
        received_ms=received_ms,
        conflict_with=None,
    )
    if route.is_plain:
        return plain_body(shown, route.id)
    made = mapped_body(route, {**shown, "route_id": route.id})
    return unroutable_body(shown, route.id, made.reason) if isinstance(made, Unroutable) else made
