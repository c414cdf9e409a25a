"""SMTP2GO: forms and JSON, and the id that nobody has explained."""

from urllib.parse import urlencode

import pytest

from mailonce.errors import ParseError
from mailonce.providers.smtp2go import PROVIDER
from tests.providers.cases import cases_of, find, keys, parse, source_of

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
JSON_CASES = [case for case in cases_of("smtp2go") if case.value is not None]


def test_a_form_with_the_same_fields_is_a_copy(subtests: pytest.Subtests) -> None:
    assert JSON_CASES
    for case in JSON_CASES:
        with subtests.test(case.name):
            body = urlencode(case.value).encode()

            assert keys("smtp2go", body, FORM) == keys("smtp2go", case.value)


def test_one_bounce_of_three_recipients_is_three_events() -> None:
    value = find("smtp2go", "bounce_hard").value
    recipients = ("ann@example.net", "bob@example.net", "cat@example.net")

    event_keys = {keys("smtp2go", {**value, "rcpt": one})[0].key for one in recipients}

    assert len(event_keys) == 3


def test_the_id_leads_to_the_event_only_where_the_source_says_so() -> None:
    value = find("smtp2go", "open").value

    [plain] = keys("smtp2go", value)
    [promoted] = keys("smtp2go", value, id_names_event=True)

    assert plain.aliases == ()
    assert [alias.name for alias in promoted.aliases] == ["id"]
    assert plain.key == promoted.key


def test_an_option_of_another_type_is_named() -> None:
    trouble = PROVIDER.check(source_of("smtp2go", options={"id_names_event": "yes"}))

    assert trouble is not None
    assert "id_names_event" in trouble


@pytest.mark.parametrize("time", ["1767225605", 1767225605, "2026-01-01T01:00:05+01:00"])
def test_a_time_is_read_in_the_other_forms_that_were_seen(time: object) -> None:
    [event] = parse("smtp2go", {**find("smtp2go", "spam").value, "time": time}).events

    assert event.occurred_ms == 1_767_225_605_000


@pytest.mark.parametrize("body", [b"{}", b'{"event":42}', b"[]"])
def test_a_body_without_a_word_for_what_happened_is_a_parse_error(body: bytes) -> None:
    with pytest.raises(ParseError):
        parse("smtp2go", body)
