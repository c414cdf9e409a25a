import pytest

from mailonce.core.mail.mime.file_name import clean_file_name
from mailonce.core.mail.problem import MailProblem
from tests.core.mail.mails import make_budget


@pytest.mark.parametrize("name", ["a.pdf", "Rechnung März.pdf", "report (1).tar.gz", "报告.docx"])
def test_an_honest_name_stays(name: str) -> None:
    budget = make_budget()

    assert clean_file_name(name, budget) == name
    assert budget.problems == set()


@pytest.mark.parametrize(
    ("name", "cleaned"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\fakepath\\a.pdf", "a.pdf"),
        ("/etc/passwd", "passwd"),
        ("..", None),
        ("a\x00b.pdf", "ab.pdf"),
        ("a\r\nb.pdf", "ab.pdf"),
        ("invoice\u202efdp.exe", "invoicefdp.exe"),
        ("a\u200b.pdf", "a.pdf"),
        ("con.txt", "_con.txt"),
        ("a.pdf. .", "a.pdf"),
        ('a<b>:"|?*.pdf', "a_b______.pdf"),
        ("\u202e", None),
    ],
)
def test_a_name_that_leads_elsewhere_or_hides_something_is_cleaned(
    name: str, cleaned: str | None
) -> None:
    budget = make_budget()

    assert clean_file_name(name, budget) == cleaned
    assert budget.problems == {MailProblem.UNSAFE_FILE_NAME}


def test_a_long_name_keeps_its_extension() -> None:
    name = clean_file_name("x" * 500 + ".pdf", make_budget())

    assert name is not None
    assert len(name) == 200
    assert name.endswith("x.pdf")
