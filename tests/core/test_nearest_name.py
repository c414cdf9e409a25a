"""The name that somebody meant, as far as that can be guessed."""

import pytest

from mailonce.core.nearest_name import did_you_mean, nearest_name

KNOWN = ("sendgrid", "mailgun", "mailjet", "ses")


@pytest.mark.parametrize(
    ("given", "meant"),
    [("sengrid", "sendgrid"), ("SendGrid", "sendgrid"), ("mailgn", "mailgun"), ("pigeon", None)],
)
def test_the_nearest_name_is_guessed_and_a_far_one_is_not(given: str, meant: str | None) -> None:
    assert nearest_name(given, KNOWN) == meant


def test_where_nothing_is_near_another_advice_is_given() -> None:
    assert did_you_mean("sengrid", KNOWN, otherwise="see the list") == "did you mean sendgrid?"
    assert did_you_mean("pigeon", KNOWN, otherwise="see the list") == "see the list"


def test_a_name_of_any_length_is_guessed_in_no_time() -> None:
    assert nearest_name("a" * 1_000_000, KNOWN) is None
