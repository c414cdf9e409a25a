from mailonce.core.mail.mime.header_block import find_header_end, read_header
from mailonce.core.mail.problem import MailProblem
from tests.core.mail.mails import make_budget


def test_fields_are_unfolded_in_order_with_their_repeats() -> None:
    fields, body_at = read_header(b"A: 1\r\nB:\r\n 2\r\n\t3\r\na : 4\r\n", make_budget())

    assert fields.fields == (("A", "1"), ("B", "2 3"), ("a", "4"))
    assert (fields.first("a"), fields.all("a"), fields.first("c")) == ("1", ["1", "4"], None)
    assert body_at is None


def test_the_end_of_a_header_is_the_first_blank_line() -> None:
    assert find_header_end(b"a: 1\r\n\r\nx\n\ny", 0, 12) == (6, 8)
    assert find_header_end(b"a: 1\n\nx\r\n\r\ny", 0, 12) == (5, 6)
    assert find_header_end(b"\r\nbody", 0, 6) == (0, 2)
    assert find_header_end(b"a: 1\r\n", 0, 6) == (6, 6)


def test_a_body_may_begin_without_a_blank_line() -> None:
    budget = make_budget()

    fields, body_at = read_header(b"Subject: x\r\nHello Ann,\r\nhow are you\r\n", budget)

    assert fields.fields == (("Subject", "x"),)
    assert body_at == 12
    assert budget.problems == {MailProblem.MISSING_BLANK_LINE}


def test_a_broken_line_inside_a_header_is_skipped() -> None:
    budget = make_budget()

    fields, body_at = read_header(b"X: 1\nthis is broken\nSubject: y\n", budget)

    assert fields.fields == (("X", "1"), ("Subject", "y"))
    assert body_at is None
    assert budget.problems == {MailProblem.BROKEN_HEADER}


def test_the_line_of_a_mailbox_file_is_no_field() -> None:
    fields, _ = read_header(b"From ann@example.com Mon Jan  5\nSubject: y\n", make_budget())

    assert fields.fields == (("Subject", "y"),)


def test_fields_and_broken_lines_are_bounded() -> None:
    budget = make_budget()

    many, _ = read_header(b"a: 1\n" * 5_000, budget)
    broken, _ = read_header(b"junk\n" * 5_000 + b"From: a\n", budget)

    assert len(many.fields) == budget.limits.header_fields_max
    assert broken.fields == ()
    assert MailProblem.TOO_MANY_HEADERS in budget.problems


def test_raw_bytes_survive_as_surrogates() -> None:
    fields, _ = read_header(b"Subject: gr\xfc\xdfe \xc3\xbc\n", make_budget())

    assert fields.first("subject") == "gr\udcfc\udcdfe ü"
