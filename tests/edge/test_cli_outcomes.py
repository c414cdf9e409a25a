"""What was sent again, on the command line: what became of it, and the exit code that says so."""

import getpass
import time
from collections.abc import Iterator
from typing import Any

import pytest

from mailonce.edge.cli.events import timeline_rows
from mailonce.testing import EventType, Happening, make_simulators
from tests.commands import Shell, post
from tests.endpoint import answers, in_turn, running_endpoint
from tests.servers import wait_for

ANN = "ann@example.net"
# The second attempt takes longer than a delivery is followed that no attempt is made of.
SLOW = in_turn(answers(200), answers(200, after_s=4), answers(200))
SETTINGS = """
[sources.main]
provider = "sesmetric"
secret = "{secret}"
[routes.good]
url = "{url}/good"
[routes.wrong]
url = "{url}/wrong"
[routes.busy]
url = "{url}/busy"
waits_s = [3600, 3600, 3600, 3600, 3600, 3600]
[routes.slow]
url = "{url}/slow"
[routes.feed]
kind = "poll"
[net]
allow_hosts = ["127.0.0.1"]
"""


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A server with a bounce that one route took; others refused it, were busy, or wait."""
    shell = Shell(tmp_path_factory.mktemp("outcomes"))
    simulator = make_simulators(seed="again")["sesmetric"]
    with running_endpoint(wrong=answers(422), busy=answers(500), slow=SLOW) as endpoint:
        settings = SETTINGS.format(secret=simulator.settings()["secret"], url=endpoint.url(""))
        (shell.folder / "mailonce.toml").write_text(settings)
        with shell.serving() as url:
            bounce = Happening("e-1", EventType.BOUNCED, "m-1", ANN, int(time.time()))
            post(url, "/in/main", simulator.post([bounce], now_s=int(time.time())))
            wait_for(lambda: _all_tried(shell), what="each endpoint to be tried")
            yield shell


def _all_tried(shell: Shell) -> bool:
    return {name for name, one in _deliveries(shell).items() if one["status"]} >= {
        "good", "wrong", "busy", "slow",
    }  # fmt: skip


def _failed(shell: Shell) -> bool:
    rows = shell.ok("delivery", "list", "--route", "wrong", "--json").json["data"]
    return {row["state"] for row in rows} == {"failed"}


def _deliveries(shell: Shell) -> dict[str, Any]:
    rows = shell.ok("delivery", "list", "--json").json["data"]
    return {row["route_name"]: row for row in rows}


def test_a_redelivery_tells_what_became_of_it(shell: Shell, subtests: pytest.Subtests) -> None:
    expected = {
        "good": (0, "1 delivered"),
        "slow": (0, "1 delivered"),
        "wrong": (1, "0 delivered, 1 failed: wrong answered 422"),
        "busy": (1, "0 delivered, 1 waits: busy answered 500; next attempt 20"),
        "feed": (0, "0 delivered, 1 waits: route feed is read by its consumer"),
    }
    ids = {name: one["id"] for name, one in _deliveries(shell).items()}

    for name, (code, words) in expected.items():
        with subtests.test(name):
            done = shell.run("redeliver", ids[name])

            assert (done.code, words in done.out) == (code, True), done.out + done.err
    with subtests.test("all"):
        done = shell.run("redeliver", *ids.values())

        assert done.code == 1
        assert "2 delivered, 1 failed, 2 wait" in done.out
    with subtests.test("detached"):
        done = shell.ok("redeliver", ids["wrong"], "--detach")

        assert "follow them with `mailonce undelivered`" in done.out
    wait_for(lambda: _failed(shell), what="the last of them to fail")


def test_a_redelivery_by_a_filter_tells_what_became_of_it(shell: Shell) -> None:
    good = shell.run("redeliver", "--route", "good")
    wrong = shell.run("redeliver", "--route", "wrong")
    anew = shell.run("reprocess", "--route", "wrong", "--type", "bounced")
    delivered = shell.run("reprocess", "--route", "slow", "--since", "today")

    assert (good.code, "1 delivered" in good.out) == (0, True), good.out
    assert wrong.code == 1
    assert "0 delivered, 1 failed: wrong answered 422" in wrong.out
    assert anew.code == 1
    assert "0 delivered, 1 failed: wrong answered 422" in anew.out, anew.out
    assert (delivered.code, "1 delivered" in delivered.out) == (0, True), delivered.out
    assert "1 delivery was made of them" in delivered.out


def test_events_that_no_route_takes_any_more_are_not_said_to_be_delivered(shell: Shell) -> None:
    shell.ok("route", "add", "spam", "https://example.com/spam", "--event", "complained")

    done = shell.run("reprocess", "--route", "spam", "--since", "today")
    shell.ok("route", "remove", "spam", "--yes")

    assert done.code == 0, done.out + done.err
    assert "nothing is delivered" in done.out, done.out


def test_what_is_pending_already_is_said_where_nothing_is_sent_again(shell: Shell) -> None:
    busy = "1 is pending already: busy is tried without you; "
    busy += "`mailonce redeliver --route busy --state pending` sends it now"
    off = "1 is pending already: route busy is off (gone [/bold]); `mailonce route on busy`"
    feed = "1 is pending already: route feed is read by its consumer"

    tried = shell.ok("redeliver", "--route", "busy", "--dry-run").out
    shell.ok("route", "off", "busy", "--reason", "gone [/bold]")
    asked = [
        shell.ok("redeliver", "--route", "busy", "--since", "today", "--dry-run").out,
        shell.ok("redeliver", "--route", "busy").out,
        shell.ok("dead", "retry", "--route", "busy").out,
    ]
    shell.ok("route", "on", "busy")
    polled = shell.ok("redeliver", "--route", "feed", "--dry-run").out
    before = shell.ok("redeliver", "--route", "feed", "--until", "7d", "--dry-run").out

    assert busy in tried
    assert [off in one for one in asked] == [True, True, True], asked
    assert feed in polled
    assert "pending" not in before


def test_nobody_is_asked_about_nothing_and_nothing_is_written(shell: Shell) -> None:
    pending = "1 is pending already: busy is tried without you"
    expected = {
        "redeliver --route busy --since 1h": ("nothing to redeliver: no such deliveries", pending),
        "reprocess --route busy --until 7d": ("nothing to reprocess: no such events",),
        "dead retry --route busy": ("no such dead letter is open", pending),
        "dead dismiss --route busy": ("no such dead letter is open", pending),
        "dead dismiss --recipient nobody@example.net": ("no such dead letter is open",),
    }
    before = shell.ok("audit", "--json").json["data"]

    shown = {one: shell.run_on_a_terminal(*one.split(), types="n\n") for one in expected}
    refused = shell.run("redeliver", "--recipient", ANN, "--route", "busy")

    for command, done in shown.items():
        assert (done.code, "?" in done.out) == (0, False), (command, done.out)
        assert all(one in done.out for one in expected[command]), (command, done.out)
    assert "none of them has ended yet, 1 pending or in progress" in refused.err
    assert shell.ok("audit", "--json").json["data"] == before
    assert shell.ok("redeliver", "--route", "busy", "--json").json["total"] == 0


def test_a_retried_dead_letter_that_fails_again_says_so(shell: Shell) -> None:
    wait_for(lambda: bool(_letters(shell)), what="a dead letter")

    retried = shell.run("dead", "retry", _letters(shell)[0]["id"])

    assert retried.code == 1
    assert "0 delivered, 1 failed: wrong answered 422" in retried.out
    assert shell.ok("dead", "retry", _letters(shell)[0]["id"], "--detach").out.endswith(
        "queued for delivery\n"
    )
    wait_for(lambda: _failed(shell), what="the retry to fail")


def test_a_letter_that_is_closed_says_so_and_is_not_sent_again(shell: Shell) -> None:
    wait_for(lambda: bool(_letters(shell)), what="a dead letter")
    letter = _letters(shell)[0]
    old, delivery = letter["id"], letter["delivery"]
    shell.run("dead", "retry", old)
    closed_at = shell.ok("dead", "show", old, "--json").json["resolved_at"]
    [new] = [one["id"] for one in _letters(shell) if one["delivery"] == delivery]
    tries = shell.ok("delivery", "show", delivery, "--json").json["attempts"]

    again = shell.run("dead", "retry", old)
    several = shell.run("dead", "retry", old, old)
    with_another = shell.run("dead", "retry", old, new, "--detach")
    wait_for(lambda: _failed(shell), what="the retry to fail")

    said = f"{old} is closed already: retried, at {closed_at}; "
    said += f"its retry failed again: {new} is open"
    assert (again.code, again.err) == (1, f"mailonce: {said}\n")
    assert (several.code, "retried 0 of 2 dead letters" in several.out) == (1, True), several.out
    assert said in " ".join(several.out.split())
    assert (with_another.code, "retried 1 of 2 dead" in with_another.out) == (0, True)
    assert shell.ok("delivery", "show", delivery, "--json").json["attempts"] == tries + 1


def _letters(shell: Shell) -> list[Any]:
    rows: list[Any] = shell.ok("dead", "list", "--route", "wrong", "--json").json["data"]
    return rows


def test_a_list_goes_on_where_it_ended(shell: Shell) -> None:
    whole = [row["id"] for row in shell.ok("delivery", "list", "--json").json["data"]]

    first = shell.ok("delivery", "list", "--limit", "1").out
    cursor = first.split("--cursor ")[1].strip()
    rest = shell.ok("delivery", "list", "--cursor", cursor, "--limit", "5000", "--json").json

    assert [row["id"] for row in rest["data"]] == whole[1:]
    assert rest["next"] is None


@pytest.mark.parametrize(
    "command",
    ["events", "delivery list", "undelivered", "dead list", "refusals", "conflicts",
     "sends list", "suppression list"],
)  # fmt: skip
def test_every_list_has_a_beginning_and_an_end(shell: Shell, command: str) -> None:
    def rows(*times: str) -> list[Any]:
        listed: list[Any] = shell.ok(*command.split(), *times, "--json").json["data"]
        return listed

    assert rows("--since", "1h") == rows("--since", "yesterday", "--until", "0s") == rows()
    assert rows("--until", "1h") == []


def test_a_resolved_dead_letter_tells_how_and_what_was_answered(shell: Shell) -> None:
    wait_for(lambda: bool(_letters(shell)), what="a dead letter")
    # Other tests may have left more than one.
    count = len(_letters(shell))
    shell.run("dead", "retry", _letters(shell)[0]["id"])
    wait_for(lambda: len(_letters(shell)) == count, what="the dead letter of the retry")
    letters = _letters(shell)
    letter = letters[0]
    for one in letters:
        shell.ok("dead", "dismiss", one["id"], "--reason", "endpoint is gone")

    resolved = shell.ok("dead", "list", "--resolved").out
    shown = shell.ok("dead", "show", letter["id"]).out
    rows = shell.ok("dead", "list", "--resolved", "--json").json["data"]
    timelines = [" ".join(shell.ok(*words).out.split())
                 for words in (("recipient", ANN), ("message", "m-1"))]  # fmt: skip
    by_filter = shell.ok("undelivered", "--route", "wrong").out
    redelivered = shell.run("redeliver", *[one["delivery"] for one in letters])
    wait_for(lambda: len(_letters(shell)) == count, what="the dead letters of the redelivery")
    failed_again = shell.ok("recipient", ANN).out

    assert all("dismissed: endpoint is gone" in one for one in timelines), timelines
    dismissed = f"{count} failed and {'was' if count == 1 else 'were'} dismissed: "
    assert f"no undelivered ones with --route wrong; {dismissed}" in by_filter
    assert (redelivered.code, "dismissed" in failed_again) == (1, False), failed_again
    assert {row["resolution"] for row in rows} == {"retried", "dismissed"}
    assert {row["status"] for row in rows} == {422}
    assert {row["recipient"] for row in rows} == {ANN}
    assert f"dismissed by local:{getpass.getuser()}: endpoint is gone" in resolved
    assert ANN in resolved
    assert letter["delivery"] in shown


def test_the_sums_of_what_is_undelivered_come_last_with_what_to_do(shell: Shell) -> None:
    shell.run("redeliver", "--route", "wrong")
    wait_for(lambda: _failed(shell), what="a delivery to fail")

    shown = shell.ok("undelivered").out

    assert shown.index("in progress") > shown.rindex("dlv_"), shown
    assert "`mailonce dead retry --route wrong`" in shown
    assert "retry --route busy" not in shown


def test_a_dead_letter_says_why_and_what_to_do_before_its_body(shell: Shell) -> None:
    shell.run("redeliver", "--route", "wrong")
    wait_for(lambda: bool(_letters(shell)), what="a dead letter")
    letter = _letters(shell)[0]["id"]

    shown = shell.ok("dead", "show", letter).out
    parts = ["the answer is final: ", f"`mailonce dead retry {letter}`", "attempt  at", "raw\n{\n"]

    places = [shown.find(part) for part in parts]
    assert -1 not in places, shown
    assert places == sorted(places), shown
    assert shown.rstrip().endswith("}")
    assert "the answer is final" in shell.ok("dead", "list").out


def test_deliveries_are_chosen_by_whom_or_what_they_are_about(shell: Shell) -> None:
    ids = {name: one["id"] for name, one in _deliveries(shell).items()}

    listed = shell.ok("delivery", "list", "--recipient", ANN.upper(), "--json").json["data"]
    by_message = shell.run("redeliver", "--message", "m-1", "--route", "wrong")
    by_address = shell.run("redeliver", "--recipient", ANN, "--route", "good")
    by_nobody = shell.run("redeliver", "--recipient", "nobody@example.net")
    dry = shell.ok("redeliver", "--recipient", ANN, "--route", "good", "--dry-run")

    for command in (["undelivered"], ["dead", "list"]):
        rows = [shell.ok(*command, *about, "--json").json["data"]
                for about in (["--recipient", ANN], ["--message", "m-1"], [])]  # fmt: skip
        assert rows[0] == rows[1] == rows[2] != []
        assert shell.ok(*command, "--recipient", "nobody@example.net", "--json").json["data"] == []
    assert {row["id"] for row in listed} >= set(ids.values())
    assert by_message.code == 1
    assert "queued 1 of 1" in by_message.out or "failed: wrong answered 422" in by_message.out
    assert (by_address.code, "1 delivered" in by_address.out) == (0, True), by_address.out
    assert (by_nobody.code, "there are no such deliveries" in by_nobody.err) == (1, True)
    assert "would redeliver 1 delivery;" in dry.out


def test_a_timeline_has_ids_and_tells_what_a_delivery_waits_for(shell: Shell) -> None:
    event = shell.ok("events", "--json").json["data"][0]["id"]

    shell.ok("route", "off", "busy", "--reason", "moving house")
    while_off = shell.ok("message", "m-1").out
    shown = {name: shell.ok(*name.split()).out
             for name in ("route show busy", "route list", "undelivered")}  # fmt: skip
    again = shell.ok("redeliver", _deliveries(shell)["busy"]["id"]).out
    shell.ok("route", "on", "busy")
    while_on = shell.ok("recipient", ANN).out

    assert event in while_off
    assert all(one["id"] in while_off for one in _deliveries(shell).values())
    assert "the route is off" in while_off
    assert "waits for its consumer" in while_off
    assert "next attempt 20" in while_on
    assert ["on", "no"] in [line.split() for line in shown["route show busy"].splitlines()]
    assert all("moving house" in out for out in shown.values()), shown
    assert "0 delivered, 1 waits: route busy is off (moving house)" in again


def test_an_endpoint_that_is_down_is_named_with_its_next_attempt() -> None:
    entry = {
        "kind": "delivery", "id": "dlv_1", "route": "rte_1", "route_name": "crm", "attempts": 0,
        "state": "pending", "status": None, "error": None, "route_on": True, "endpoint_down": True,
        "made_at": "2026-11-17T17:40:00.000Z", "done_at": None,
        "next_attempt_at": "2026-11-17T17:43:49.000Z",
    }  # fmt: skip

    [row] = timeline_rows([entry])

    assert row["detail"] == "0 attempts, endpoint down, next attempt 2026-11-17T17:43:49Z or later"
