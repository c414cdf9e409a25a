"""The doctor's judgement of sources: alarms, and what was refused of late."""

from collections.abc import Sequence

from mailonce.core.health import source_trouble
from mailonce.core.health.alarm import AlarmKind, Pulse
from mailonce.core.health.checkup import Level
from mailonce.core.health.record_name import RecordName
from mailonce.core.health.source_trouble import SOURCES_MAX, RecentRefusal, SourceAlarm

# 1970-01-02, in minutes.
NOON = 36 * 60


def make_refusal(
    name: str, reason: str, count: int, *, is_known: bool = True, minute: int = NOON,
    pulses: Sequence[Pulse] = (), workspace: str = "",
) -> RecentRefusal:  # fmt: skip
    return RecentRefusal(
        name=RecordName(name, workspace), reason=reason, count=count, last_minute=minute,
        advice=f"advice for {reason}", is_known=is_known, pulses=pulses,
    )  # fmt: skip


def test_each_kind_of_alarm_is_an_error_of_its_source() -> None:
    findings = source_trouble.of_alarms(
        [SourceAlarm(RecordName("main"), kind) for kind in AlarmKind]
    )

    assert {(one.check, one.level) for one in findings} == {("source main", Level.FAIL)}
    assert len({one.detail for one in findings}) == len(AlarmKind)
    assert all(one.advice for one in findings)


def test_a_source_is_shown_once_with_its_reasons_the_most_frequent_first() -> None:
    recent = [
        make_refusal("main", "stale", 2),
        make_refusal("other", "wrong", 1),
        make_refusal("main", "wrong", 1_000),
    ]

    first, second = source_trouble.of_refusals(recent)

    assert first.check == "source main"
    assert first.detail.startswith("1,002 refused in the last hour: wrong (1,000), stale (2)")
    assert first.advice == "advice for wrong; see `mailonce refusals --source main`"
    assert (second.check, second.level) == ("source other", Level.WARN)


def test_sources_of_one_name_are_kept_apart_by_their_workspaces() -> None:
    recent = [make_refusal("pm", "wrong", 2), make_refusal("pm", "wrong", 1, workspace="acme")]

    ours, theirs = source_trouble.of_refusals(recent)
    [alarm] = source_trouble.of_alarms([SourceAlarm(RecordName("pm", "acme"), AlarmKind.REFUSING)])

    assert (ours.check, theirs.check) == ("source pm", "source pm (workspace acme)")
    assert ours.detail.startswith("2 refused in the last hour: wrong (2); ")
    assert theirs.detail.startswith("1 refused in the last hour: wrong (1); ")
    assert ours.advice.endswith("see `mailonce refusals --source pm`")
    assert theirs.advice.endswith("see `mailonce refusals --source pm --workspace acme`")
    assert alarm.check == "source pm (workspace acme)"
    assert "`mailonce refusals --source pm --workspace acme`" in alarm.advice


def test_what_was_accepted_after_the_last_refusal_may_be_over() -> None:
    pulses = [
        Pulse(NOON - 1, taken=9, refused=0),
        Pulse(NOON, taken=5, refused=1),
        Pulse(NOON + 2, taken=1_200, refused=0),
    ]
    over = [
        make_refusal("main", "wrong", 3, minute=NOON - 5, pulses=pulses),
        make_refusal("main", "stale", 1, minute=NOON, pulses=pulses),
    ]
    lasting = make_refusal("main", "wrong", 3, pulses=[Pulse(NOON, taken=1, refused=3)])

    [mended], [open_] = source_trouble.of_refusals(over), source_trouble.of_refusals([lasting])

    assert mended.detail.endswith("; last at 12:00Z, 1,200 accepted in later minutes")
    assert mended.advice.startswith("if it was not corrected since: advice for wrong; see `mail")
    assert open_.detail.endswith("; last at 12:00Z, nothing accepted in later minutes")
    assert open_.advice.startswith("advice for wrong; see `mailonce")
    assert mended.level is open_.level is Level.WARN, "a part may still be refused"


def test_a_name_that_no_source_has_is_no_filter() -> None:
    [finding] = source_trouble.of_refusals([make_refusal("(unknown) x", "none", 1, is_known=False)])

    assert finding.advice == "advice for none; see `mailonce refusals`"


def test_however_many_refuse_the_list_has_an_end() -> None:
    recent = [make_refusal(f"s{number}", "wrong", 1) for number in range(SOURCES_MAX + 5)]

    findings = source_trouble.of_refusals(recent)

    assert len(findings) == SOURCES_MAX + 1
    assert findings[-1].detail == "5 more refused 5 arrivals in the last hour"
    assert findings[-1].advice == "see `mailonce refusals`"
    theirs = make_refusal("z", "wrong", 1, workspace="acme")
    mixed = source_trouble.of_refusals([*recent, theirs])[-1].advice
    assert mixed == "see `mailonce refusals` and `mailonce refusals --workspace acme`"
    assert source_trouble.of_refusals([]) == []
