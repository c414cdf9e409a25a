from datetime import UTC, datetime

import pytest

from mailonce.core.mail.mime.mail_date import read_date_ms

MORNING = datetime(2026, 1, 5, 9, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    "value",
    [
        "Mon, 05 Jan 2026 10:00:00 +0100",
        "Mon, 5 Jan 2026 10:00:00 +0100 (CET)",
        "5 Jan 2026 09:00 GMT",
        "5 Jan 26 09:00:00 Z",
        "Monday, 5 January 2026 4:00:00 EST",
        "Mon,5 Jan 2026 10:00:00 +01:00",
        "05-Jan-2026 09:00:00 UT",
        "Mon Jan  5 09:00:00 2026",
        "2026-01-05T10:00:00+01:00",
        "2026-01-05 09:00:00",
        "Mon, 5 Jan 2026 9:00:00 AM +0000",
        "Mon, 05 Jan 2026 09.00.00 +0000",
    ],
)
def test_a_date_is_read_in_its_zone(value: str) -> None:
    assert read_date_ms(value) == int(MORNING.timestamp() * 1000)


@pytest.mark.parametrize(
    "value",
    ["", "yesterday", "Mon, 35 Jan 2026 10:00:00", "1 Foo 2026 10:00:00", "5 Jan 0 10:00",
     "Mon, 5 Jan 2026 25:00:00 +0000", "1 Jan 1902 00:00:00 +0000",
     "\u0665 Jan \u0662\u0660\u0662\u0666 10:00", "(" * 200],
)  # fmt: skip
def test_what_is_no_date_is_none(value: str) -> None:
    assert read_date_ms(value) is None


def test_a_leap_second_and_the_end_of_time_are_dates() -> None:
    assert read_date_ms("31 Dec 2016 23:59:60 +0000") is not None
    assert read_date_ms("31 Dec 9999 23:59:59 -2359") is None
