"""The doctor names the sources whose mail waits for its provider, and says what to do."""

from mailonce.core.health.checkup import Level
from mailonce.core.health.mail_waiting import WaitingMail, of_waiting
from mailonce.core.health.record_name import RecordName

TEN_MINUTES_MS = 600_000


def test_the_source_the_last_error_and_what_to_do_are_said() -> None:
    error = "unavailable: the provider answered 500"
    known = WaitingMail(
        source="src_1", name=RecordName("rs"), mails=1200, wait_ms=TEN_MINUTES_MS, error=error
    )  # fmt: skip

    [finding] = of_waiting([known])

    assert (finding.check, finding.level) == ("source rs", Level.WARN)
    assert finding.detail == (
        "1,200 mails wait to be fetched from the provider, the oldest for 10 minutes: "
        "unavailable: the provider answered 500"
    )
    assert "`api_key`" in finding.advice
    assert "`mailonce dead list --kind mail`" in finding.advice


def test_where_nobody_tries_a_worker_is_missing_and_a_deleted_source_has_its_id() -> None:
    untried = WaitingMail(
        source="src_1", name=RecordName("rs"), mails=1, wait_ms=TEN_MINUTES_MS, error=None
    )
    deleted = WaitingMail(source="src_2", name=None, mails=1, wait_ms=TEN_MINUTES_MS, error="gone")

    idle, gone = of_waiting([untried, deleted])

    assert idle.detail.startswith("1 mail waits to be fetched")
    assert "`mailonce serve`" in idle.advice
    assert gone.check == "source src_2"
    assert "make one of the same provider and account" in gone.advice


def test_mail_of_another_workspace_is_named_with_it() -> None:
    theirs = WaitingMail(
        source="src_1", name=RecordName("rs", "acme"), mails=1, wait_ms=TEN_MINUTES_MS, error="gone"
    )

    [finding] = of_waiting([theirs])

    assert finding.check == "source rs (workspace acme)"
    assert "`mailonce dead list --kind mail --workspace acme`" in finding.advice
