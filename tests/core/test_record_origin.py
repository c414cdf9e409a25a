"""Whose a record is that a file, a command or an app gives settings to."""

from mailonce.core.record_origin import (
    API,
    APP,
    FILE,
    NOT_IN_FILE,
    SEALED_BY_FILE,
    off_when_put,
    origin_when_put,
)


def test_a_change_over_the_api_takes_nothing_from_the_file() -> None:
    for stored in (FILE, SEALED_BY_FILE):
        assert origin_when_put(API, stored=stored, off=None) == stored
        assert origin_when_put(API, stored=stored, off="by hand") == stored


def test_who_changes_what_the_file_no_longer_has_owns_it() -> None:
    assert origin_when_put(API, stored=FILE, off=NOT_IN_FILE) == API


def test_a_record_is_of_who_puts_it_otherwise() -> None:
    assert origin_when_put(API, stored=None, off=None) == API
    assert origin_when_put(FILE, stored=API, off=None) == FILE
    assert origin_when_put(API, stored=APP, off=None) == API


def test_only_what_is_off_for_want_of_a_file_goes_on_when_it_is_put() -> None:
    assert off_when_put(NOT_IN_FILE) is None
    assert off_when_put("by hand") == "by hand"
    assert off_when_put(None) is None
