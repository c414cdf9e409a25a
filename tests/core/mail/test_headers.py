from mailonce.core.mail.budget import DigestLimits
from mailonce.core.mail.headers import note_oddities, read_headers
from mailonce.core.mail.mime.header_block import NO_FIELDS, make_fields
from mailonce.core.mail.problem import MailProblem
from tests.core.mail.mails import make_budget


def test_a_header_is_read() -> None:
    budget = make_budget()
    headers = read_headers(
        make_fields(
            (
                ("FROM", "Ann <a@x.example>"),
                ("Subject", "=?utf-8?q?u=CC=88?="),
                ("date", "Mon, 5 Jan 2026 10:00:00 +0000"),
                ("In-Reply-To", "<1@x>"),
                ("References", "<0@x> <1@x>"),
            )
        ),
        budget,
    )

    assert headers.from_[0].address == "a@x.example"
    assert headers.subject == "ü"
    assert headers.date_ms == 1_767_607_200_000
    assert (headers.in_reply_to, headers.references) == (("1@x",), ("0@x", "1@x"))
    assert budget.problems == set()


def test_of_a_field_that_stands_twice_the_first_counts() -> None:
    budget = make_budget()
    headers = read_headers(make_fields((("Subject", "one"), ("subject", "two"))), budget)

    assert headers.subject == "one"
    assert budget.problems == {MailProblem.DUPLICATE_HEADER}


def test_what_is_missing_is_named() -> None:
    budget = make_budget()
    headers = read_headers(NO_FIELDS, budget)
    note_oddities(headers, budget)

    assert headers.subject is None
    assert budget.problems == {
        MailProblem.MISSING_FROM,
        MailProblem.MISSING_DATE,
        MailProblem.MISSING_MESSAGE_ID,
    }


def test_several_senders_and_a_strange_date_are_named() -> None:
    budget = make_budget()
    headers = read_headers(
        make_fields((("From", "a@x.example, b@y.example"), ("Date", "soon"))), budget
    )
    note_oddities(headers, budget)

    assert (headers.date_raw, headers.date_ms) == ("soon", None)
    assert {MailProblem.SEVERAL_FROM, MailProblem.BAD_DATE} <= budget.problems


def test_headers_are_shown_within_a_limit() -> None:
    budget = make_budget(DigestLimits(shown_headers_chars_max=100))
    headers = read_headers(make_fields((("X", "y" * 40),) * 10), budget)

    assert len(headers.shown) == 2
    assert budget.problems == {MailProblem.HEADER_TOO_LARGE}
