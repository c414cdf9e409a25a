"""What the gate promises to a Django project beyond what every adapter does."""

import json
from collections.abc import Callable
from typing import Any, assert_type

import pytest
from django.core.management import call_command
from django.db import connections, transaction
from django.db.utils import IntegrityError
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.test import RequestFactory
from django.views import View

from mailonce.errors import ConfigError, UnavailableError
from mailonce.gate import Gate, Passage, Policy, is_final
from mailonce.gate.adapters.django import gated, passage
from mailonce.gate.stores.django import DjangoStore
from mailonce.gate.stores.sqlite import SqliteStore
from tests.gate.places import ORDER, Place
from tests.gate.rigs import django as rig

Handler = Callable[[HttpRequest], Any]


@pytest.fixture
def alias(place: Place) -> str:
    rig.set_up()
    return rig.add_database(place)


def post(view: Handler, key: str = "k-1", body: object = None) -> Any:
    request = RequestFactory().post(
        "/hooks", json.dumps(body or {}), "application/json", headers={"Idempotency-Key": key}
    )
    return view(request)


def gate_on(alias: str, **choices: Any) -> Gate[Any]:
    return Gate(DjangoStore(alias), Policy(**choices))


def order(alias: str) -> None:
    with connections[alias].cursor() as cursor:
        cursor.execute(ORDER)


def test_what_django_turns_into_a_404_is_recorded_where_that_is_wanted(
    alias: str, place: Place
) -> None:
    runs: list[int] = []

    @gated(gate_on(alias, terminal=is_final))
    def view(_request: HttpRequest) -> HttpResponse:
        runs.append(1)
        order(alias)
        raise Http404("no such list")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("django.conf.settings.ROOT_URLCONF", __name__, raising=False)
        first, again = post(view), post(view)

    assert [first.status_code, again.status_code] == [404, 404]
    assert again["Idempotent-Replayed"] == "true"
    assert (len(runs), place.orders()) == (1, 0)


def test_a_view_that_returns_no_response_is_refused_with_a_sentence(
    alias: str, place: Place
) -> None:
    @gated(gate_on(alias))
    def view(_request: HttpRequest) -> Any:
        order(alias)
        return {"ticket": 1}

    with pytest.raises(ConfigError, match="returned a dict; return an HttpResponse"):
        post(view)

    assert (place.orders(), place.records()) == (0, 0)


def test_missing_tables_are_made_by_migrate(alias: str) -> None:
    gate: Gate[Any] = Gate(DjangoStore(alias, table="not_there"))

    with pytest.raises(UnavailableError, match=r"manage\.py migrate"):
        gate.check()


def test_a_view_that_marks_its_transaction_as_broken_is_not_acknowledged(
    alias: str, place: Place
) -> None:
    @gated(gate_on(alias))
    def view(_request: HttpRequest) -> HttpResponse:
        order(alias)
        transaction.set_rollback(True, using=alias)
        return HttpResponse(status=201)

    answer = post(view)

    assert answer.status_code == 503
    assert (place.orders(), place.records()) == (0, 0)


def test_a_view_may_survive_a_failed_inner_block(alias: str, place: Place) -> None:
    @gated(gate_on(alias))
    def view(_request: HttpRequest) -> HttpResponse:
        order(alias)
        with (
            pytest.raises(IntegrityError),
            transaction.atomic(using=alias),
            connections[alias].cursor() as cursor,
        ):
            cursor.execute("INSERT INTO orders (note) VALUES (NULL)")
        return HttpResponse(status=201)

    assert post(view).status_code == 201
    assert (place.orders(), place.records()) == (1, 1)


def test_what_waits_for_the_commit_runs_after_it_and_once(alias: str, place: Place) -> None:
    seen: list[int] = []

    @gated(gate_on(alias))
    def view(_request: HttpRequest) -> HttpResponse:
        order(alias)
        transaction.on_commit(lambda: seen.append(place.orders()), using=alias)
        return HttpResponse(status=201)

    post(view)
    post(view)

    assert seen == [1]


def test_a_gate_inside_another_transaction_says_what_to_change(alias: str) -> None:
    view = gated(gate_on(alias))(lambda _: HttpResponse(status=201))

    with (
        pytest.raises(ConfigError, match=r"outside of transaction\.atomic"),
        transaction.atomic(using=alias),
    ):
        post(view)


def test_atomic_requests_leave_the_transaction_to_the_gate(alias: str) -> None:
    view = gated(gate_on(alias))(lambda _: HttpResponse(status=201))

    assert alias in view._non_atomic_requests  # type: ignore[attr-defined]


def test_a_streamed_response_is_recorded_whole(alias: str) -> None:
    view = gated(gate_on(alias))(lambda _: StreamingHttpResponse(iter([b"one ", b"two"])))

    first, again = post(view), post(view)

    assert (first.content, again.content) == (b"one two", b"one two")


def test_a_class_based_view_can_be_gated(alias: str, place: Place) -> None:
    class Hooks(View):
        def post(self, request: HttpRequest) -> HttpResponse:
            order(alias)
            return HttpResponse(f"{passage(request).token > 0}", status=201)

    view = gated(gate_on(alias))(Hooks.as_view())

    first, again = post(view), post(view)

    assert (first.content, again.content, place.orders()) == (b"True", b"True", 1)


def test_the_passage_of_a_request_has_a_type(alias: str) -> None:
    @gated(gate_on(alias))
    def view(request: HttpRequest) -> HttpResponse:
        assert_type(passage(request), Passage[Any])
        assert passage(request) is request.passage  # type: ignore[attr-defined]
        return HttpResponse(passage(request).key, status=201)

    assert post(view).status_code == 201
    with pytest.raises(ConfigError, match=r"GET /hooks did not come through a gate; decorate"):
        passage(RequestFactory().get("/hooks"))


def test_a_body_above_the_limit_is_413(alias: str, place: Place) -> None:
    view = gated(gate_on(alias, body_bytes_max=10))(lambda _: HttpResponse(status=201))

    assert post(view, body={"much": "x" * 100}).status_code == 413
    assert place.records() == 0


def test_a_get_goes_straight_through(alias: str, place: Place) -> None:
    view = gated(gate_on(alias))(lambda _: HttpResponse(status=200))

    assert view(RequestFactory().get("/hooks")).status_code == 200
    assert place.records() == 0


def test_what_cannot_be_atomic_is_refused_when_it_is_written(alias: str) -> None:
    async def asynchronous(_request: HttpRequest) -> HttpResponse:
        return HttpResponse(status=201)

    with pytest.raises(ConfigError, match="sync view"):
        gated(gate_on(alias))(asynchronous)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="DjangoStore"):
        gated(Gate(SqliteStore("shop.db"), Policy()))


def test_the_migration_makes_the_gates_tables_and_takes_them_away(place: Place) -> None:
    rig.set_up()
    empty = beside(place)
    alias = rig.add_database(empty)
    view = gated(gate_on(alias))(lambda _: HttpResponse(status=201))

    call_command("migrate", "mailonce_gate", database=alias, verbosity=0)
    answer, records = post(view), empty.records()
    owed = empty.query("SELECT count(*) FROM webhook_outbox")
    call_command("migrate", "mailonce_gate", "zero", database=alias, verbosity=0)
    gone = post(view)
    call_command("migrate", "mailonce_gate", database=alias, verbosity=0)
    connections[alias].close()

    assert (answer.status_code, records, owed) == (201, 1, [(0,)])
    assert gone.status_code == 503
    assert empty.records() == 0


def test_the_model_reads_what_the_gate_wrote(alias: str) -> None:
    from mailonce.gate.django.models import IdempotencyRecord

    post(gated(gate_on(alias))(lambda _: HttpResponse(b"made", status=201)))

    record = IdempotencyRecord.objects.using(alias).get(idempotency_key="k-1")

    assert (record.status, record.response_status) == ("completed", 201)
    assert bytes(record.response_body or b"") == b"made"
    assert record.expires_at > record.created_at


def test_the_model_and_its_migration_agree() -> None:
    rig.set_up()

    call_command("makemigrations", "mailonce_gate", check=True, dry_run=True, verbosity=0)


def beside(place: Place) -> Place:
    """Give an empty database of the same kind."""
    if place.dialect == "sqlite":
        return Place("sqlite", f"{place.url}-empty")
    place.query("CREATE DATABASE gate_empty")
    return Place("postgresql", place.url.rpartition("/")[0] + "/gate_empty")


urlpatterns: list[Any] = []
