"""What every adapter over every store does alike, on SQLite and PostgreSQL."""

import asyncio
import json
from collections import Counter
from dataclasses import replace

import pytest

from mailonce.gate import Request, Response, is_final
from tests.gate.conftest import MakeRig
from tests.gate.places import Place
from tests.gate.rigs.contract import Kind
from tests.gate.shop import Act, Shop

Case = tuple[Kind, Place]
MODES = ("atomic", "lease")


def post(key: str | None = "k-1", body: object = None, **headers: str) -> Request:
    """Make a webhook; keywords are further headers."""
    pairs = [("content-type", "application/json")]
    if key is not None:
        pairs.append(("x-idempotency-key", key))
    pairs += [(name.replace("_", "-"), value) for name, value in headers.items()]
    raw = body if isinstance(body, bytes) else json.dumps(body or {"id": 1, "to": "ann"}).encode()
    return Request(headers=tuple(pairs), body=raw, method="POST", path="/hooks")


def is_replay(response: Response) -> bool:
    return response.header("idempotent-replayed") == "true"


@pytest.mark.parametrize("mode", MODES)
async def test_a_repeat_hears_what_the_first_heard(
    case: Case, make_rig: MakeRig, shop: Shop, mode: str
) -> None:
    rig = make_rig(mode=mode)
    shop.expect(Act(status=201, headers=(("location", "/orders/1"), ("set-cookie", "a=b"))))

    first = await rig.send(post())
    again = await rig.send(post())

    assert (first.status, is_replay(first)) == (201, False)
    assert (again.status, again.body, is_replay(again)) == (201, first.body, True)
    assert again.header("location") == "/orders/1"
    assert again.header("content-type") == "application/json"
    assert again.header("set-cookie") is None
    assert (shop.runs, case[1].orders()) == (1, 1)


async def test_the_same_json_written_otherwise_is_a_repeat(make_rig: MakeRig, shop: Shop) -> None:
    rig = make_rig()
    await rig.send(post(body=b'{"id": 1, "to": "\\u00e4nn"}'))

    again = await rig.send(post(body='{"to":"änn","id":1}'.encode()))

    assert is_replay(again)
    assert shop.runs == 1


@pytest.mark.parametrize("mode", MODES)
async def test_other_content_under_a_key_is_refused_with_the_fields_that_differ(
    case: Case, make_rig: MakeRig, mode: str
) -> None:
    rig = make_rig(mode=mode)
    await rig.send(post(body={"id": 1, "to": "ann", "size": 3}))

    other = await rig.send(post(body={"id": 1, "to": "bob", "colour": "red"}))

    assert other.status == 409
    assert json.loads(other.body)["fields"] == ["colour", "size", "to"]
    assert case[1].orders() == 1


async def test_a_request_that_cannot_be_told_from_others_is_refused(
    case: Case, make_rig: MakeRig, shop: Shop
) -> None:
    rig = make_rig()
    requests = [
        post(None),
        post(""),
        post("   "),
        post("k-1", idempotency_key="k-2"),
        post(None, idempotency_key='"k-1'),
        post("k" * 300),
    ]

    answers = [await rig.send(request) for request in requests]

    assert [answer.status for answer in answers] == [400] * len(requests)
    assert all("error" in json.loads(answer.body) for answer in answers)
    assert (shop.runs, case[1].records()) == (0, 0)


async def test_both_headers_and_a_structured_string_are_one_key(make_rig: MakeRig) -> None:
    rig = make_rig()

    answers = [
        await rig.send(post("k-1")),
        await rig.send(post("k-1", idempotency_key="k-1")),
        await rig.send(post(None, idempotency_key='"k-1"')),
    ]

    assert [is_replay(answer) for answer in answers] == [False, True, True]


@pytest.mark.parametrize("mode", MODES)
async def test_of_fifty_copies_at_once_one_takes_effect(
    case: Case, make_rig: MakeRig, shop: Shop, mode: str
) -> None:
    rig = make_rig(mode=mode)

    answers = await asyncio.gather(*(rig.send(post()) for _ in range(50)))
    last = await rig.send(post())

    statuses = Counter((answer.status, is_replay(answer)) for answer in answers)
    assert statuses[201, False] == 1
    assert set(statuses) <= {(201, False), (201, True), (503, False)}
    assert all(answer.header("retry-after") for answer in answers if answer.status == 503)
    assert (last.status, is_replay(last)) == (201, True)
    assert (shop.runs, case[1].orders()) == (1, 1)


async def test_a_refusal_is_undone_and_a_repaired_receiver_may_be_asked_again(
    case: Case, make_rig: MakeRig, shop: Shop
) -> None:
    rig = make_rig()
    shop.expect(Act(status=422), Act(status=404))

    refused = [await rig.send(post()), await rig.send(post())]
    repaired = await rig.send(post())

    assert [answer.status for answer in refused] == [422, 404]
    assert not any(is_replay(answer) for answer in refused)
    assert (repaired.status, is_replay(repaired)) == (201, False)
    assert (shop.runs, case[1].orders()) == (3, 1)


@pytest.mark.parametrize("mode", MODES)
async def test_a_recorded_refusal_is_told_again_until_somebody_redelivers(
    case: Case, make_rig: MakeRig, shop: Shop, mode: str
) -> None:
    rig = make_rig(mode=mode, terminal=is_final)
    shop.expect(Act(status=422, orders=mode == "atomic"))

    first = await rig.send(post())
    again = await rig.send(post())
    redelivered = await rig.send(post(x_mailonce_redelivery="1"))
    done = await rig.send(post(x_mailonce_redelivery="2"))

    assert [first.status, again.status] == [422, 422]
    assert is_replay(again)
    assert (redelivered.status, is_replay(redelivered)) == (201, False)
    assert (done.status, is_replay(done)) == (201, True)
    assert (shop.runs, case[1].orders()) == (2, 1)


async def test_the_query_string_is_part_of_what_is_asked(
    case: Case, make_rig: MakeRig, shop: Shop
) -> None:
    rig = make_rig()

    answers = [
        await rig.send(replace(post(), query=query)) for query in ("to=ann", "to=bob", "to=ann")
    ]

    assert [answer.status for answer in answers] == [201, 409, 201]
    assert json.loads(answers[1].body)["fields"] == ["the query string"]
    assert is_replay(answers[2])
    assert (shop.runs, case[1].orders()) == (1, 1)


@pytest.mark.parametrize("act", [Act(status=503), Act(raises=True)], ids=["503", "raises"])
async def test_a_transient_failure_leaves_nothing_and_the_key_may_be_tried_again(
    case: Case, make_rig: MakeRig, shop: Shop, act: Act
) -> None:
    rig = make_rig()
    shop.expect(act)

    failed = await rig.send(post())
    orders = case[1].orders()
    again = await rig.send(post())
    third = await rig.send(post())

    assert failed.status == (500 if act.raises else act.status)
    assert orders == 0
    assert (again.status, is_replay(again)) == (201, False)
    assert is_replay(third)
    assert (shop.runs, case[1].orders()) == (2, 1)


async def test_a_transient_failure_lets_the_lease_go(make_rig: MakeRig, shop: Shop) -> None:
    rig = make_rig(mode="lease")
    shop.expect(Act(status=503, orders=False))
    await rig.send(post())

    again = await rig.send(post())

    assert (again.status, is_replay(again), shop.runs) == (201, False, 2)


@pytest.mark.parametrize("mode", MODES)
async def test_while_the_first_runs_a_copy_is_told_to_come_again(
    case: Case, make_rig: MakeRig, shop: Shop, mode: str
) -> None:
    rig = make_rig(mode=mode)
    shop.expect(Act(waits=True))
    first = asyncio.create_task(rig.send(post()))
    await asyncio.to_thread(shop.inside.wait, 10)

    copy = await rig.send(post())
    shop.go.set()

    assert copy.status == 503
    assert int(copy.header("retry-after") or 0) > 0
    assert (await first).status == 201
    assert is_replay(await rig.send(post()))
    assert (shop.runs, case[1].orders()) == (1, 1)


async def test_after_its_window_a_key_is_new(case: Case, make_rig: MakeRig, shop: Shop) -> None:
    rig = make_rig()
    await rig.send(post(body={"id": 1}))
    case[1].let_window_end()

    answer = await rig.send(post(body={"id": 2}))
    again = await rig.send(post(body={"id": 2}))

    assert (answer.status, is_replay(answer)) == (201, False)
    assert is_replay(again)
    assert (shop.runs, case[1].orders()) == (2, 2)


async def test_a_key_belongs_to_its_caller(case: Case, make_rig: MakeRig, shop: Shop) -> None:
    rig = make_rig(caller=lambda request: next(request.values("x-account"), ""))

    answers = [await rig.send(post(x_account=name)) for name in ("ann", "bob", "ann")]

    assert [is_replay(answer) for answer in answers] == [False, False, True]
    assert (shop.runs, case[1].orders()) == (2, 2)


async def test_a_sender_that_is_not_proven_writes_nothing(
    case: Case, make_rig: MakeRig, shop: Shop
) -> None:
    rig = make_rig(verify=lambda _request, _now_ms: "wrong signature")

    answer = await rig.send(post())

    assert answer.status == 401
    assert (shop.runs, case[1].records()) == (0, 0)


async def test_a_store_that_cannot_be_asked_is_503(make_rig: MakeRig, shop: Shop) -> None:
    rig = make_rig(table="nowhere")

    answer = await rig.send(post())

    assert answer.status == 503
    assert answer.header("retry-after")
    assert shop.runs == 0


async def test_another_body_is_a_revision_where_that_is_wanted(
    case: Case, make_rig: MakeRig, shop: Shop
) -> None:
    rig = make_rig(other_content="revision")

    answers = [await rig.send(post(body={"id": number})) for number in (1, 2, 1, 2)]

    assert [is_replay(answer) for answer in answers] == [False, False, True, True]
    assert answers[0].body == answers[2].body != answers[1].body == answers[3].body
    assert (shop.runs, case[1].orders()) == (2, 2)


async def test_a_body_above_the_limit_is_refused(case: Case, make_rig: MakeRig, shop: Shop) -> None:
    rig = make_rig(body_bytes_max=100)

    answer = await rig.send(post(body={"id": "x" * 200}))

    assert answer.status == 413
    assert (shop.runs, case[1].records()) == (0, 0)


async def test_without_a_key_a_request_may_pass_ungated(
    case: Case, make_rig: MakeRig, shop: Shop
) -> None:
    rig = make_rig(key_required=False)
    shop.expect(Act(), Act(), Act(status=500))

    answers = [await rig.send(post(None)) for _ in range(3)]

    assert [answer.status for answer in answers] == [201, 201, 500]
    assert (shop.runs, case[1].orders(), case[1].records()) == (3, 2, 0)


async def test_a_large_response_is_told_once_and_its_status_remembered(
    make_rig: MakeRig, shop: Shop
) -> None:
    rig = make_rig(response_bytes_max=1000)
    shop.expect(Act(status=200, body=b"x" * 5000))

    first = await rig.send(post())
    again = await rig.send(post())

    assert len(first.body) == 5000
    assert (again.status, again.body, is_replay(again)) == (200, b"", True)
    assert again.header("x-mailonce-gate") == "body-not-kept"


async def test_a_holder_that_lost_its_lease_changes_nothing(
    case: Case, make_rig: MakeRig, shop: Shop
) -> None:
    rig = make_rig(mode="lease")
    shop.expect(Act(status=200, waits=True, orders=False), Act(status=201))
    paused = asyncio.create_task(rig.send(post()))
    await asyncio.to_thread(shop.inside.wait, 10)
    case[1].let_leases_end()

    second = await rig.send(post())
    shop.go.set()
    late = await paused
    third = await rig.send(post())

    assert (second.status, is_replay(second)) == (201, False)
    assert (late.status, late.body, is_replay(late)) == (201, second.body, True)
    assert (third.status, third.body) == (201, second.body)
