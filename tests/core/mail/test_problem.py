import re
from pathlib import Path

from mailonce.core.mail.problem import MailProblem

PAGE = Path(__file__).parents[3] / "docs/messages.md"


def test_a_problem_is_a_word_that_a_program_can_compare() -> None:
    for problem in MailProblem:
        assert re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)*", str(problem))
        assert problem.name.lower() == problem.value


def test_the_page_on_messages_explains_each_problem_once() -> None:
    table = PAGE.read_text().partition("## Problems")[2]
    words = [
        word
        for row in re.findall(r"^\| (`.+?) \|", table, re.MULTILINE)
        for word in row.split(", ")
    ]

    assert sorted(words) == sorted(f"`{problem}`" for problem in MailProblem)
