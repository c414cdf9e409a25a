from mailonce.core.mail.budget import DigestBudget, DigestLimits
from mailonce.core.mail.problem import MailProblem

LIMITS = DigestLimits(
    parts_max=2,
    scanned_bytes_max=100,
    delimiters_max=1,
    decoded_bytes_max=10,
    part_headers_bytes_max=30,
    guesses_max=1,
)


def test_what_is_taken_is_gone_and_a_refusal_is_noted() -> None:
    budget = DigestBudget(LIMITS)

    assert [budget.take_part() for _ in range(3)] == [True, True, False]
    assert [budget.take_scan(60), budget.take_scan(60), budget.take_scan(40)] == [True, False, True]
    assert [budget.take_delimiter(), budget.take_delimiter()] == [True, False]
    assert [budget.take_decoded(10), budget.take_decoded(1)] == [True, False]
    assert [budget.take_part_header(20), budget.take_part_header(20)] == [20, 10]
    assert [budget.take_guess(), budget.take_guess()] == [True, False]
    assert budget.problems == {
        MailProblem.TOO_MANY_PARTS,
        MailProblem.TOO_COMPLEX,
        MailProblem.TOO_LARGE,
    }
