"""What the doctor reads of several workspaces is kept apart, with commands that act in each."""

import pytest

from mailonce.clock import Clock
from mailonce.core.health.alarm import AlarmKind
from mailonce.core.health.checkup import Finding
from mailonce.core.record_origin import FILE
from mailonce.core.signatures.refusal import NO_SOURCE
from mailonce.store.configuration import sources, workspaces
from mailonce.store.ledger import refusals
from mailonce.store.ledger.refusals import RefusalCount
from mailonce.views.doctor import MINUTE_MS, examine_open, examine_sources
from mailonce.views.paging import PageQuery
from mailonce.views.refusals import list_refusals
from tests.factories import Ledger, make_dead, make_entry, make_source, new_id

OURS = make_source(id="src_ours", name="pm", provider="postmark")
THEIRS = make_source(id="src_theirs", name="pm", provider="postmark", workspace="acme")
# Made where a variable of the server gives a setting to `pm`.
VARIABLES = {"pm": {"basic": "MAILONCE_SOURCES__PM__BASIC"}}
SET = "mailonce source set pm --basic -"


@pytest.fixture
async def two_teams(ledger: Ledger) -> Ledger:
    await ledger.add_workspace("acme")
    for source in (OURS, THEIRS):
        await ledger.add_source(source)
    return ledger


async def refuse(
    ledger: Ledger, workspace: str, source: str, count: int, *, reason: str = "wrong password"
) -> None:
    refusal = RefusalCount(
        workspace=workspace, source=source, reason=reason, process=b"one", count=count,
        minute=Clock().now_ms() // MINUTE_MS, body_bytes=2, headers=b"{}", sample=b"{}",
    )  # fmt: skip
    await ledger.database.write(lambda tx: refusals.add_all(tx, [refusal]))


def by_check(findings: list[Finding]) -> dict[str, Finding]:
    return {one.check: one for one in findings}


async def test_refusals_of_sources_of_one_name_are_told_apart_by_workspace(
    two_teams: Ledger,
) -> None:
    await refuse(two_teams, workspaces.DEFAULT, OURS.id, 2)
    await refuse(two_teams, "acme", THEIRS.id, 1)

    found = by_check(await examine_sources(two_teams.database, Clock(), (), VARIABLES))
    pages = [
        await list_refusals(
            two_teams.database, one, PageQuery(10), source="pm", variables=VARIABLES, is_admin=True
        )
        for one in (workspaces.DEFAULT, "acme")
    ]

    ours, theirs = found["source pm"], found["source pm (workspace acme)"]
    assert ours.detail.startswith("2 refused in the last hour: wrong password (2); ")
    assert theirs.detail.startswith("1 refused in the last hour: wrong password (1); ")
    assert f"`{SET}`" in ours.advice
    assert f"`{SET} --workspace acme`" in theirs.advice
    assert theirs.advice.endswith("see `mailonce refusals --source pm --workspace acme`")
    assert [[one["count"] for one in page["data"]] for page in pages] == [[2], [1]]
    assert f"`{SET} --workspace acme`" in pages[1]["data"][0]["advice"]


async def test_a_variable_governs_the_source_of_the_default_workspace_alone(
    two_teams: Ledger,
) -> None:
    await two_teams.database.write(lambda tx: sources.adopt(tx, OURS.id, origin=FILE))
    await refuse(two_teams, workspaces.DEFAULT, OURS.id, 1)
    await refuse(two_teams, "acme", THEIRS.id, 1)

    found = by_check(await examine_sources(two_teams.database, Clock(), (), VARIABLES))

    assert "the variable MAILONCE_SOURCES__PM__BASIC" in found["source pm"].advice
    assert "MAILONCE_SOURCES__PM__BASIC" not in found["source pm (workspace acme)"].advice


async def test_who_has_a_key_of_one_workspace_is_given_commands_without_its_name(
    two_teams: Ledger,
) -> None:
    await refuse(two_teams, "acme", THEIRS.id, 1)

    page = await list_refusals(two_teams.database, "acme", PageQuery(10))

    assert f"`{SET}`" in page["data"][0]["advice"], "another key than the admin's may not name any"


async def test_a_name_that_other_workspaces_have_leads_to_their_addresses(
    ledger: Ledger,
) -> None:
    await ledger.add_workspace("acme")
    await ledger.add_source(THEIRS)
    await refuse(ledger, workspaces.DEFAULT, "(unknown) pm", 1, reason=NO_SOURCE)
    address = "/in/src_theirs (workspace acme)"

    found = by_check(await examine_sources(ledger.database, Clock(), (), VARIABLES))
    admins, others = [
        await list_refusals(ledger.database, workspaces.DEFAULT, PageQuery(10), is_admin=is_admin)
        for is_admin in (True, False)
    ]

    advice = found["source (unknown) pm"].advice
    assert address in advice
    assert "`mailonce source list --workspace acme`" in advice
    assert address in admins["data"][0]["advice"]
    assert "acme" not in str(others["data"]), "who may act in one workspace sees no other"
    assert "src_theirs" not in str(others["data"])


async def test_an_alarm_names_the_workspace_of_its_source(two_teams: Ledger) -> None:
    alarms = [(THEIRS.id, AlarmKind.REFUSING)]

    [alarm] = await examine_sources(two_teams.database, Clock(), alarms, None)

    assert alarm.check == "source pm (workspace acme)"


async def test_dead_letters_are_counted_by_workspace(two_teams: Ledger) -> None:
    for number, source in enumerate((OURS, THEIRS, THEIRS)):
        raw = b"{" * (number + 1)
        dead = make_dead(new_id(two_teams.now_ms), "the body is not JSON", raw)
        await two_teams.record(make_entry(source, raw, now_ms=two_teams.now_ms, dead=(dead,)))

    found = by_check(await examine_open(two_teams.database, ()))

    assert found["dead letters"].detail == "1 open"
    assert found["dead letters (workspace acme)"].detail == "2 open"
    assert "`mailonce dead list --workspace acme`" in found["dead letters (workspace acme)"].advice
