import re

from mailonce.core.mail.problem import MailProblem


def test_a_problem_is_a_word_that_a_program_can_compare() -> None:
    for problem in MailProblem:
        assert re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)*", str(problem))
        assert problem.name.lower() == problem.value
