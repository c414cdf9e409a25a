"""What a receiver is worth follows from its answers alone."""

from dataclasses import replace

import orjson
import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from mailonce.core.deliveries.certify import Grade, ProbeKind, ProbeResponse, certify, request_of
from mailonce.core.deliveries.route import Route, RouteSecret
from mailonce.core.deliveries.signing import new_secret

NOW_MS = 1_790_000_000_000
RUN = bytes(range(32))
SECRET = new_secret(b"s" * 32)
ROUTE = Route(
    id="rte_x",
    workspace="default",
    name="x",
    url="https://x.example/hooks",
    secrets=(RouteSecret(SECRET),),
    headers={"X-Team": "crm", "X-Mailonce-Probe": "mine"},
)

PERFECT = {
    ProbeKind.GOOD: ProbeResponse(200, 20),
    ProbeKind.DUPLICATE: ProbeResponse(200, 10),
    ProbeKind.CHANGED: ProbeResponse(409, 10),
    ProbeKind.UNSIGNED: ProbeResponse(401, 5),
    ProbeKind.FORGED: ProbeResponse(401, 5),
    ProbeKind.STALE: ProbeResponse(401, 5),
    ProbeKind.SLOW: ProbeResponse(200, 2_100),
}


def test_whoever_does_all_right_is_an_a() -> None:
    certificate = certify(PERFECT)

    assert certificate.grade is Grade.A
    assert len(certificate.findings) == len(ProbeKind) + 1
    assert {one.advice for one in certificate.findings} == {"nothing to do"}


@pytest.mark.parametrize(
    ("probe", "heard", "grade"),
    [
        (ProbeKind.UNSIGNED, ProbeResponse(200, 5), Grade.F),
        (ProbeKind.FORGED, ProbeResponse(204, 5), Grade.F),
        (ProbeKind.FORGED, ProbeResponse(500, 5), Grade.B),
        (ProbeKind.STALE, ProbeResponse(200, 5), Grade.D),
        (ProbeKind.STALE, ProbeResponse(None, 10_000, "it did not answer"), Grade.D),
        (ProbeKind.DUPLICATE, ProbeResponse(409, 5), Grade.D),
        (ProbeKind.DUPLICATE, ProbeResponse(500, 5), Grade.D),
        (ProbeKind.CHANGED, ProbeResponse(200, 5), Grade.C),
        (ProbeKind.CHANGED, ProbeResponse(500, 5), Grade.B),
        (ProbeKind.CHANGED, ProbeResponse(422, 5), Grade.A),
        (ProbeKind.SLOW, ProbeResponse(408, 900), Grade.C),
        (ProbeKind.GOOD, ProbeResponse(200, 1_500), Grade.B),
        (ProbeKind.GOOD, ProbeResponse(200, 7_000), Grade.D),
    ],
)
def test_one_fault_is_what_a_receiver_is_worth(
    probe: ProbeKind, heard: ProbeResponse, grade: Grade
) -> None:
    certificate = certify({**PERFECT, probe: heard})

    assert certificate.grade is grade
    faults = [one for one in certificate.findings if one.grade is not Grade.A]
    assert all(one.advice != "nothing to do" for one in faults)


@pytest.mark.parametrize(
    ("status", "word"),
    [(401, "secret"), (301, "redirect"), (500, "2xx"), (None, "reached")],
)
def test_whoever_refuses_the_good_one_is_judged_by_that_alone(
    status: int | None, word: str
) -> None:
    certificate = certify({ProbeKind.GOOD: ProbeResponse(status, 5, "nobody answered")})

    assert certificate.grade is Grade.F
    (finding,) = certificate.findings
    assert word in finding.advice


def test_an_outside_verifier_takes_what_is_good_and_nothing_else() -> None:
    verifier = Webhook(SECRET)
    now_ms = _now_ms()

    verdicts = {}
    for probe in ProbeKind:
        request = request_of(probe, ROUTE, run=RUN, began_ms=now_ms, now_ms=now_ms)
        try:
            event = verifier.verify(request.body, dict(request.headers))
        except (WebhookVerificationError, KeyError):
            verdicts[probe] = False
        else:
            verdicts[probe] = event["type"] == "other"

    assert [probe for probe, taken in verdicts.items() if not taken] == [
        ProbeKind.UNSIGNED,
        ProbeKind.FORGED,
        ProbeKind.STALE,
    ]


def test_a_copy_has_the_same_bytes_and_key_and_its_twin_the_key_alone() -> None:
    good, copy, changed, forged = (
        request_of(probe, ROUTE, run=RUN, began_ms=NOW_MS, now_ms=NOW_MS + 5_000)
        for probe in (ProbeKind.GOOD, ProbeKind.DUPLICATE, ProbeKind.CHANGED, ProbeKind.FORGED)
    )

    assert copy.body == good.body != changed.body
    keys = {one.headers["x-idempotency-key"] for one in (good, copy, changed)}
    assert len(keys) == 1
    assert forged.headers["x-idempotency-key"] not in keys


def test_the_routes_own_headers_and_mapping_are_used_but_never_in_place_of_ours() -> None:
    route = replace(ROUTE, mapping={"what": "$.type", "why": "$.reason"})

    request = request_of(ProbeKind.GOOD, route, run=RUN, began_ms=NOW_MS, now_ms=NOW_MS)

    assert request.headers["x-team"] == "crm"
    assert request.headers["x-mailonce-probe"] == "good"
    assert orjson.loads(request.body) == {"what": "other", "why": "a probe"}


def _now_ms() -> int:
    import time

    return time.time_ns() // 1_000_000
