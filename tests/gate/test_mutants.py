"""Each line of defence, taken away, is missed: a test of the suite fails on the broken gate."""

from collections.abc import Callable
from typing import Any

import pytest

from mailonce.errors import ConfigError
from mailonce.gate import Policy, Response
from mailonce.gate.flows import passage
from mailonce.gate.rules import fingerprint as fingerprints
from mailonce.gate.rules.decision import First
from mailonce.gate.sql import statements
from tests.gate import test_conformance as suite
from tests.gate import test_crash as crash
from tests.gate import test_misuse_awaited as misuse
from tests.gate.conftest import MakeRig
from tests.gate.places import Place
from tests.gate.rigs.contract import Kind
from tests.gate.shop import Act, Shop

Case = tuple[Kind, Place]
EACH = pytest.mark.parametrize(
    "case", [("sqlite3", "sqlite"), ("psycopg", "postgresql")], ids=str, indirect=True
)


def without_the_fence(patch: pytest.MonkeyPatch) -> None:
    """Let whoever once held the key write its record."""
    cut = statements._FENCED.replace(" AND fencing_token = {token}", "")
    assert cut != statements._FENCED
    patch.setattr(statements, "_FENCED", cut)


def recording_every_status(patch: pytest.MonkeyPatch) -> None:
    """Freeze a 500, as Stripe's first version did."""

    def kept(self: Policy, response: Response) -> Response:
        del self
        return response

    patch.setattr(Policy, "kept", kept)


def comparing_nothing(patch: pytest.MonkeyPatch) -> None:
    """Look at the key alone."""
    patch.setattr(fingerprints, "of_json", lambda _body: ("0" * 64, {}))


def claiming_before_the_work(patch: pytest.MonkeyPatch) -> None:
    """Commit the claim, then work in a transaction of its own."""
    real = passage.GateFlows.enter

    def early(self: passage.GateFlows, claim: Any) -> passage.Flow[Any]:
        decision = yield from real(self, claim)
        if isinstance(decision, First):
            yield passage.Commit()
            yield from passage.opening()
        return decision

    patch.setattr(passage.GateFlows, "enter", early)


def keeping_what_a_refusal_did(patch: pytest.MonkeyPatch) -> None:
    """Record a refusal in the transaction of the work."""
    patch.setattr(passage, "_refuses", lambda _kept: False)


def committing_unfinished(patch: pytest.MonkeyPatch) -> None:
    """Let a claim be committed before its response is recorded."""
    cut = statements._CLAIM.replace("{unfinished}", "NULL")
    assert cut != statements._CLAIM
    patch.setattr(statements, "_CLAIM", cut)


def never_forgetting(patch: pytest.MonkeyPatch) -> None:
    """Take an expired record for a live one."""
    patch.setattr(statements, "_FREE", statements._FREE.replace("expires_at <= {now}", "1 = 0"))


def caught(check: Callable[[], object]) -> None:
    with pytest.raises((AssertionError, ConfigError)):
        check()


def test_a_missing_fence_is_caught(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    without_the_fence(monkeypatch)

    caught(lambda: crash.test_a_late_holder_cannot_finish_what_another_works_on(place))


def test_a_claim_before_the_work_is_caught(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    claiming_before_the_work(monkeypatch)

    # PostgreSQL refuses it by itself.
    caught(lambda: crash.test_nobody_sees_a_claim_before_its_work(place))


async def test_a_missing_guard_is_caught(
    postgres_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    committing_unfinished(monkeypatch)
    check = misuse.test_postgresql_itself_refuses_a_commit_below_every_guard

    with pytest.raises(pytest.fail.Exception):
        await check(postgres_place)


@EACH
async def test_a_recorded_500_is_caught(
    case: Case, make_rig: MakeRig, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording_every_status(monkeypatch)
    check = suite.test_a_transient_failure_leaves_nothing_and_the_key_may_be_tried_again

    with pytest.raises(AssertionError):
        await check(case, make_rig, shop, Act(status=503))


@EACH
async def test_a_gate_that_compares_nothing_is_caught(
    case: Case, make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    comparing_nothing(monkeypatch)
    check = suite.test_other_content_under_a_key_is_refused_with_the_fields_that_differ

    with pytest.raises(AssertionError):
        await check(case, make_rig, "atomic")


@EACH
async def test_a_refusal_that_keeps_its_work_is_caught(
    case: Case, make_rig: MakeRig, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeping_what_a_refusal_did(monkeypatch)
    check = suite.test_a_recorded_refusal_is_told_again_until_somebody_redelivers

    with pytest.raises(AssertionError):
        await check(case, make_rig, shop, "atomic")


@EACH
async def test_a_gate_that_never_forgets_is_caught(
    case: Case, make_rig: MakeRig, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    never_forgetting(monkeypatch)

    with pytest.raises(AssertionError):
        await suite.test_after_its_window_a_key_is_new(case, make_rig, shop)
