"""The doctor's judgement of what waits for a person, in each workspace."""

from mailonce.core.health import open_work
from mailonce.core.health.checkup import Level
from mailonce.core.health.open_work import WORKSPACES_MAX, OpenWork
from mailonce.core.health.record_name import RecordName


def test_what_waits_for_a_person_and_what_is_down_is_shown() -> None:
    calm = open_work.of_open(OpenWork(dead_letters={}, sends_need_person={}))
    down = (("route", RecordName("crm")), ("sender", RecordName("out")))
    open_ = OpenWork(dead_letters={"": 1200}, sends_need_person={"": 2}, down=down)
    busy = open_work.of_open(open_)

    assert [one.level for one in calm] == [Level.OK]
    assert [one.check for one in busy] == ["route crm", "sender out", "dead letters", "sends"]
    assert {one.level for one in busy} == {Level.WARN}
    assert all(one.advice for one in busy)
    assert busy[2].detail == "1,200 open"


def test_what_waits_is_counted_by_workspace_with_the_command_that_shows_it() -> None:
    down = (("route", RecordName("crm", "acme")),)
    open_ = OpenWork(dead_letters={"acme": 1, "": 3}, sends_need_person={"acme": 2}, down=down)

    route, ours, theirs, sends = open_work.of_open(open_)

    assert (route.check, route.advice) == (
        "route crm (workspace acme)", "see `mailonce undelivered --workspace acme`"
    )  # fmt: skip
    assert (ours.check, ours.detail) == ("dead letters", "3 open")
    assert ours.advice.startswith("see `mailonce dead list`; ")
    assert (theirs.check, theirs.detail) == ("dead letters (workspace acme)", "1 open")
    assert theirs.advice.startswith("see `mailonce dead list --workspace acme`; ")
    assert sends.check == "sends (workspace acme)"
    assert "`mailonce sends list --state unknown --workspace acme`" in sends.advice


def test_however_many_workspaces_have_dead_letters_the_list_has_an_end() -> None:
    letters = {f"w{number:02}": 2 for number in range(WORKSPACES_MAX + 3)}

    findings = open_work.of_open(OpenWork(dead_letters=letters, sends_need_person={}))

    assert len(findings) == WORKSPACES_MAX + 1
    assert findings[-1].detail == "6 open, in 3 further workspaces"
