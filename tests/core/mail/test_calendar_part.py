from mailonce.core.mail.calendar_part import read_calendar

INVITATION = """BEGIN:VCALENDAR\r
METHOD:REQUEST\r
BEGIN:VEVENT\r
UID:1@example.com\r
SUMMARY:Lunch\\, with a\r
 nd without Ann\r
DTSTART;TZID=Europe/Berlin:20260105T120000\r
LOCATION:Room 1\r
END:VEVENT\r
END:VCALENDAR\r
"""


def test_an_invitation_is_read() -> None:
    facts = read_calendar(INVITATION)

    assert facts is not None
    assert (facts.method, facts.uid) == ("request", "1@example.com")
    assert facts.summary == "Lunch, with and without Ann"
    assert (facts.starts, facts.ends, facts.location) == ("20260105T120000", None, "Room 1")


def test_the_type_may_name_the_method() -> None:
    facts = read_calendar(INVITATION, "CANCEL")

    assert facts is not None
    assert facts.method == "cancel"


def test_other_text_is_no_calendar() -> None:
    assert read_calendar("hello") is None
    assert read_calendar("BEGIN:VCALENDAR\n" + "X:" * 100_000) is not None
