"""A route that was removed, as support staff meets it: what is left of it, and how it is sent."""

import getpass
import time
from collections.abc import Iterator
from typing import Any

import pytest

from mailonce.testing import EventType, Happening, make_simulators
from tests.commands import Shell, post
from tests.endpoint import Endpoint, answers, running_endpoint
from tests.servers import wait_for

ANN = "ann@example.net"
LETTERS = 5
SETTINGS = """
[sources.main]
provider = "sesmetric"
secret = "{secret}"
[net]
allow_hosts = ["127.0.0.1"]
[worker]
breaker_failures = 1000
"""
PUT_BACK = (
    "put the route back with `mailonce route add crm …` (`--secret` keeps its secret; else give "
    "its endpoint the new one), then `mailonce dead retry --route crm`"
)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Shell, Endpoint]]:
    """A server of whose routes two have dead letters, and one waits for its next attempt."""
    shell = Shell(tmp_path_factory.mktemp("removed"))
    simulator = make_simulators(seed="removed")["sesmetric"]
    with running_endpoint(crm=answers(422), shut=answers(422), later=answers(500)) as endpoint:
        settings = SETTINGS.format(secret=simulator.settings()["secret"])
        (shell.folder / "mailonce.toml").write_text(settings)
        with shell.serving() as url:
            add(shell, endpoint, "crm")
            add(shell, endpoint, "shut")
            add(shell, endpoint, "later")
            now_s = int(time.time())
            bounces = [
                Happening(f"e-{number}", EventType.BOUNCED, f"m-{number}", ANN, now_s)
                for number in range(LETTERS)
            ]
            post(url, "/in/main", *(simulator.post([one], now_s=now_s) for one in bounces))
            wait_for(
                lambda: [len(letters(shell, one)) for one in ("crm", "shut")] == [LETTERS] * 2,
                what="the dead letters",
            )
            wait_for(
                lambda: [one["status"] for one in deliveries(shell, "later")] == [500] * LETTERS,
                what="the other endpoint to be tried",
            )
            yield shell, endpoint


def add(shell: Shell, endpoint: Endpoint, name: str) -> str:
    return str(shell.ok("route", "add", name, endpoint.url(f"/{name}"), "--json").json["id"])


def letters(shell: Shell, route: str, *more: str) -> list[Any]:
    rows: list[Any] = shell.ok("dead", "list", "--route", route, "--json", *more).json["data"]
    return rows


def deliveries(shell: Shell, route: str) -> list[Any]:
    rows: list[Any] = shell.ok("delivery", "list", "--route", route, "--json").json["data"]
    return rows


def test_the_letters_of_a_removed_route_wait_until_it_is_put_back(
    desk: tuple[Shell, Endpoint],
) -> None:
    shell, endpoint = desk
    route = letters(shell, "crm")[0]["route"]
    shell.ok("route", "remove", "crm", "--yes")
    before = letters(shell, "crm")
    ids = [one["id"] for one in before]

    refused = shell.run("dead", "retry", "--route", "crm")
    of_ids = shell.run("dead", "retry", *ids)
    of_one = shell.run("dead", "retry", ids[0])
    counted = shell.ok("dead", "retry", "--route", "crm", "--dry-run").out
    redelivered = shell.run("redeliver", before[0]["delivery"])
    by_address = shell.run("redeliver", "--recipient", ANN, "--route", "crm", "--dry-run")
    listed = shell.ok("undelivered").out

    named = f"5 dead letters cannot be retried ({ids[0]}, {ids[1]}, {ids[2]} and 2 more)"
    assert refused.code == of_ids.code == of_one.code == redelivered.code == by_address.code == 1
    assert f"{named}: its route crm was removed; {PUT_BACK}\n" in refused.out
    assert f"{named}: its route crm was removed; {PUT_BACK}\n" in of_ids.out
    assert len(refused.out.splitlines()) <= 2, refused.out
    assert f"its route crm was removed; {PUT_BACK}" in of_one.err
    assert "would retry 0 dead letters; nothing was changed" in counted
    one = before[0]["delivery"]
    assert f"{one} cannot be sent again: its route crm was removed; put the" in redelivered.err
    assert f"then `mailonce redeliver {one}`" in redelivered.err
    assert "cannot be sent again, nor can 4 more: its route crm was removed" in by_address.err
    assert f"5 of crm (removed) cannot be sent as things are: {PUT_BACK}" in listed
    assert PUT_BACK in shell.ok("dead", "show", ids[0]).out
    assert PUT_BACK in shell.ok("delivery", "show", before[0]["delivery"]).out
    assert letters(shell, "crm") == before, "not one is closed, counted or dated anew"

    endpoint.behaviours["/crm"] = answers(200)
    assert add(shell, endpoint, "crm") == route
    assert f"`mailonce dead retry {ids[0]}`" in shell.ok("dead", "show", ids[0]).out
    sent = shell.ok("dead", "retry", "--route", "crm", "--yes").out

    assert "retried 5 of 5 dead letters\n" in sent
    assert "5 delivered" in sent
    keys = [one.key for one in endpoint.at("/crm")]
    assert sorted(keys[LETTERS:]) == sorted(keys[:LETTERS]), "the same keys again"


def test_what_waited_for_a_removed_route_is_a_dead_letter_at_once(
    desk: tuple[Shell, Endpoint],
) -> None:
    shell, _ = desk

    removed = shell.ok("route", "remove", "later", "--yes").out
    listed = letters(shell, "later")

    assert "its pending deliveries are dead letters" in removed
    assert {one["reason"] for one in listed} == {"route_deleted"}
    assert len(listed) == LETTERS
    for command in (["message", "m-1"], ["recipient", ANN], ["undelivered"]):
        shown = shell.ok(*command).out
        assert "later (removed)" in shown
        assert "next attempt 2" not in shown
    assert "its route was removed" in shell.ok("dead", "show", listed[0]["id"]).out


def test_who_retries_what_another_retries_is_told_the_truth(
    desk: tuple[Shell, Endpoint],
) -> None:
    shell, _ = desk
    shell.ok("route", "off", "shut")
    first, second, third, *_ = letters(shell, "shut")

    shell.ok("dead", "retry", first["id"], "--detach")
    again = shell.ok("dead", "retry", first["id"], "--detach").out
    with_others = shell.ok("dead", "retry", first["id"], second["id"], third["id"], "--detach").out
    of_first = shell.ok("delivery", "show", first["delivery"], "--json").json

    assert f"{first['id']} had been retried before, at 20" in again
    assert "nothing more is sent" in again
    assert "retried 2 of 3 dead letters; 1 had been retried or dismissed before\n" in with_others
    assert of_first["redeliveries"] == 1

    rows = shell.ok("delivery", "list", "--event", of_first["event"], "--json").json["data"]
    assert [one["redelivery_pending"] for one in rows if one["route_name"] == "shut"] == [True]
    message = shell.ok("events", "show", of_first["event"], "--json").json["message_id"]
    shown = [shell.ok("message", message).out, shell.ok("recipient", ANN).out]
    listed = shell.ok("undelivered", "--route", "shut").out
    who = getpass.getuser()
    for out in shown:
        [line] = [one for one in out.splitlines() if of_first["id"] in one]
        assert "→ shut: redelivery pending" in line
        assert "1 attempt, before that HTTP 422, the route is off" in line
        assert [one.split()[1:-1] for one in out.splitlines() if first["id"] in one] == [
            ["→", "shut:", "retried", "-", "-", "by", f"local:{who}"]
        ], out
    assert "redelivery pending" in listed


def test_a_timeline_says_who_had_a_delivery_sent_again(desk: tuple[Shell, Endpoint]) -> None:
    shell, endpoint = desk
    add(shell, endpoint, "good")
    event = shell.ok("events", "list", "--json").json["data"][0]
    shell.ok("reprocess", event["id"], "--route", "good")
    [made] = deliveries(shell, "good")

    shell.ok("redeliver", made["id"])
    shown = shell.ok("message", event["message_id"]).out

    rows = [one.split() for one in shown.splitlines() if "→ good" in one]
    assert [(row[3], row[-1][:4]) for row in rows] == [
        ("reprocessed", "rpr_"), ("delivered", "dlv_"), ("redelivered", "rdl_"),
        ("delivered", "dlv_"),
    ]  # fmt: skip
    assert all(f"local:{getpass.getuser()}" in row for row in (rows[0], rows[2]))
    assert all(row[0].startswith("20") for row in rows)


def test_a_route_is_sent_what_it_never_had_and_nothing_twice(
    desk: tuple[Shell, Endpoint],
) -> None:
    shell, endpoint = desk
    add(shell, endpoint, "back")
    event = shell.ok("events", "list", "--json").json["data"][0]
    shell.ok("reprocess", event["id"], "--route", "back")

    counted = shell.ok("reprocess", "--route", "back", "--missing", "--dry-run").out
    sent = shell.ok("reprocess", "--route", "back", "--missing", "--yes").out
    again = shell.ok("reprocess", "--route", "back", "--missing", "--yes").out
    listed = shell.ok("reprocess", "--route", "back", "--missing", "--json").json

    assert f"would reprocess {LETTERS - 1} events" in counted
    assert f"queued {LETTERS - 1} of {LETTERS - 1} events" in sent
    assert f"{LETTERS - 1} delivered" in sent
    assert "nothing to reprocess: back had each of them" in again
    assert listed["total"] == 0
    assert len({one["event"] for one in deliveries(shell, "back")}) == LETTERS
    assert len(endpoint.at("/back")) == LETTERS


def test_a_reason_that_is_given_later_is_kept_or_refused(desk: tuple[Shell, Endpoint]) -> None:
    shell, _ = desk
    *_, open_, retried = letters(shell, "shut")
    shell.ok("route", "off", "shut")
    shell.ok("dead", "retry", retried["id"], "--detach")

    def dismiss(letter: Any, *reason: str) -> Any:
        done = shell.run("dead", "dismiss", letter["id"], *reason)
        kept = shell.ok("dead", "show", letter["id"], "--json").json["dismissed_because"]
        return done.code, kept, done.out

    assert dismiss(open_)[:2] == (0, None)
    code, kept, out = dismiss(open_, "--reason", "it moved")
    assert (code, kept) == (0, "it moved")
    assert "now it has your reason" in out
    assert dismiss(open_, "--reason", "it moved")[:2] == (0, "it moved")
    for letter, reason in ((open_, "it moved"), (retried, None)):
        code, kept, out = dismiss(letter, "--reason", "another")
        assert (code, kept) == (1, reason)
        assert "is closed already" in out
        assert "the reason that you give is not kept" in out


def test_an_id_that_nobody_knows_may_have_been_refused(desk: tuple[Shell, Endpoint]) -> None:
    shell, _ = desk

    for unknown in ("m-unknown", "m-unknown@example.net"):
        assert "`mailonce refusals`" in shell.run("message", unknown).err
