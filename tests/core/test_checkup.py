"""The doctor's judgement: each fault is found, and nothing else."""

from collections.abc import Sequence

import pytest

from mailonce.core.health import checkup
from mailonce.core.health.checkup import Finding, Level, OffRecord, SourceState
from mailonce.core.health.record_name import RecordName

SQLITE = {"journal_mode": "wal", "synchronous": "2", "version": "3.40.1"}
POSTGRES = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "log_error_verbosity": "terse",
    "version": "16.2",
}


def make_source(**changes: object) -> SourceState:
    fields: dict[str, object] = {
        "name": RecordName("main"),
        "provider": "sesmetric",
        "horizon_s": 72 * 3600,
        "opens": True,
        "proven": True,
    }
    return SourceState(**(fields | changes))  # type: ignore[arg-type]


def bad(findings: Sequence[Finding]) -> list[tuple[str, Level]]:
    assert all(one.advice for one in findings if one.level is not Level.OK)
    return [(one.check, one.level) for one in findings if one.level is not Level.OK]


@pytest.mark.parametrize(("database", "settings"), [("sqlite", SQLITE), ("postgresql", POSTGRES)])
def test_durable_settings_are_well(database: str, settings: dict[str, str]) -> None:
    assert bad(checkup.of_durability(database, settings)) == []
    assert bad(checkup.of_database(database, settings)) == []


@pytest.mark.parametrize(
    ("database", "name", "value"),
    [
        ("sqlite", "journal_mode", "delete"),
        ("sqlite", "synchronous", "1"),
        ("postgresql", "fsync", "off"),
        ("postgresql", "synchronous_commit", "off"),
        ("postgresql", "full_page_writes", "off"),
    ],
)
def test_a_setting_that_loses_commits_fails(database: str, name: str, value: str) -> None:
    settings = SQLITE if database == "sqlite" else POSTGRES

    findings = checkup.of_durability(database, {**settings, name: value})

    assert bad(findings) == [(name, Level.FAIL)]


def test_a_talkative_or_old_postgresql_is_noticed() -> None:
    talkative = checkup.of_database("postgresql", {**POSTGRES, "log_error_verbosity": "default"})
    old = checkup.of_database("postgresql", {**POSTGRES, "version": "13.9"})

    assert bad(talkative) == [("database log", Level.WARN)]
    assert bad(old) == [("database", Level.FAIL)]


@pytest.mark.parametrize(
    ("skew_ms", "level"),
    [(0, "ok"), (-1_900, "ok"), (5_000, "warn"), (-31_000, "fail")],
)
def test_a_clock_may_be_a_little_off(skew_ms: int, level: str) -> None:
    assert checkup.of_clock(skew_ms).level == level


def test_pruning_that_waits_for_a_clock_is_shown() -> None:
    [finding] = checkup.of_forgetting("2028-03-01T00:00:00.000Z")

    assert (finding.level, "until 2028-03-01" in finding.detail) == (Level.WARN, True)
    assert checkup.of_forgetting(None) == []


def test_a_window_must_outlast_the_longest_retry() -> None:
    sources = [make_source(), make_source(provider="ses", horizon_s=3600)]

    assert checkup.of_window(3, sources).level is Level.OK
    short = checkup.of_window(2, sources)
    assert short.level is Level.FAIL
    assert "sesmetric" in short.detail
    assert short.advice == "set window_days = 3 or more"


def test_a_source_must_be_installed_readable_and_proven() -> None:
    sources = [
        make_source(name="well"),
        make_source(name="gone", horizon_s=None),
        make_source(name="sealed", opens=False, proven=False),
        make_source(name="open", proven=False),
    ]

    assert bad(checkup.of_sources(sources)) == [
        ("source gone", Level.FAIL),
        ("source sealed", Level.FAIL),
        ("source open", Level.WARN),
    ]
    assert bad(checkup.of_sources(sources[:1])) == []


def test_secrets_that_no_master_key_opens_are_one_finding_for_each_noun() -> None:
    sealed = [make_source(name=f"s{number}", opens=False) for number in range(7)]
    others = [("route", "crm"), ("sender", "out"), ("route", "erp")]

    [one] = checkup.of_sources([make_source(), sealed[0]])
    [many] = checkup.of_sources([make_source(), *sealed])
    routes, sender = checkup.of_unreadable(others)

    assert (one.check, one.detail) == ("source s0", "its secrets cannot be opened")
    assert (many.check, many.level) == ("sources", Level.FAIL)
    assert many.detail == "the secrets of 7 (s0, s1, s2, s3, s4 and 2 more) cannot be opened"
    assert (routes.check, sender.check) == ("routes", "sender out")
    assert routes.detail.startswith("the secrets of 2 (crm, erp) cannot be opened; its")
    assert all(one.advice.startswith("set master_key") for one in (many, routes, sender))


def test_tomorrow_needs_room() -> None:
    assert checkup.of_days([]).level is Level.OK
    assert checkup.of_days(["events_20000"]).level is Level.FAIL
    assert checkup.of_days(["events_20000"], is_running=False).level is Level.OK


def test_before_the_first_start_nothing_is_missing() -> None:
    assert (
        "in sqlite:////srv/x.db" in checkup.of_tables("sqlite:////srv/x.db", is_empty=True).detail
    )
    assert checkup.of_tables("", is_empty=True).level is Level.WARN
    assert checkup.of_tables("", is_empty=False).level is Level.WARN
    [sources] = checkup.of_sources([], in_file=3)
    assert (sources.level, sources.detail[:22]) == (Level.OK, "3 in the settings file")
    assert checkup.of_no_master_key("data", has_secrets=False).level is Level.OK
    assert checkup.of_no_master_key("data", has_secrets=True).level is Level.FAIL


def test_who_listens_publicly_needs_an_admin_key() -> None:
    host = "192.0.2.1"

    assert checkup.of_listening(host, is_public=True, has_admin_key=False).level is Level.FAIL
    assert checkup.of_listening(host, is_public=True, has_admin_key=True).level is Level.OK
    assert checkup.of_listening(host, is_public=False, has_admin_key=False).level is Level.OK


def test_a_master_key_beside_the_database_and_short_lived_facts_are_warned_of() -> None:
    assert checkup.of_master_key(is_own_process=True).level is Level.WARN
    assert checkup.of_master_key(is_own_process=False).level is Level.OK
    shared = checkup.of_master_key(is_own_process=False, is_shared=True)
    assert (shared.level, "MAILONCE_MASTER_KEY" in shared.advice) == (Level.WARN, True)
    assert checkup.of_retention(window_days=35, facts_days=10).level is Level.WARN
    assert checkup.of_retention(window_days=35, facts_days=35).level is Level.OK


def test_a_master_key_that_can_be_guessed_is_warned_of() -> None:
    [finding] = checkup.of_key_length(["k" * 32, "abc"])

    assert finding.level is Level.WARN
    assert "3 characters" in finding.detail
    assert "abc" not in f"{finding.detail} {finding.advice}"
    assert "openssl rand -hex 32" in finding.advice
    assert checkup.of_key_length(["k" * 32]) == checkup.of_key_length([]) == []


def test_what_is_switched_off_is_shown_with_what_becomes_of_its_work() -> None:
    [source, route] = checkup.of_off(
        [
            OffRecord("source", RecordName("main"), "it is no longer in the settings file"),
            OffRecord("route", RecordName("crm"), "410"),
        ]
    )

    assert (source.check, source.level) == ("source main", Level.WARN)
    assert "send again later" in source.detail
    assert "mailonce source on main" in source.advice
    assert route.detail.startswith("is switched off: 410; its deliveries wait")


def test_what_is_off_in_another_workspace_is_not_in_the_settings_file() -> None:
    [finding] = checkup.of_off([OffRecord("source", RecordName("pm", "acme"), "by hand")])

    assert finding.check == "source pm (workspace acme)"
    assert finding.advice == (
        "run `mailonce source on pm --workspace acme` or end it with "
        "`mailonce source remove pm --workspace acme`"
    )
