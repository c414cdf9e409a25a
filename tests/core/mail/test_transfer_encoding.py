import pytest

from mailonce.core.mail.mime.transfer_encoding import decode_transfer
from mailonce.core.mail.problem import MailProblem
from tests.core.mail.mails import make_budget


@pytest.mark.parametrize(
    ("encoding", "encoded", "decoded", "problem"),
    [
        ("7bit", b"=41", b"=41", None),
        ("BASE64", b"aGVs\r\nbG8=\r\n", b"hello", None),
        ("base64", b"aGVsbG8", b"hello", MailProblem.BAD_BASE64),
        ("base64", b"aGVs*bG8h", b"hello!", MailProblem.BAD_BASE64),
        ("base64", b"aGk=aGk=", b"hihi", None),
        ("base64", b"aGVsbG8hA", b"hello!", MailProblem.BAD_BASE64),
        ("base64", b"Dear Ann, this -- is: (not) <base64>.", None, MailProblem.BAD_BASE64),
        ("base64", b"", b"", None),
        ("base64", b"aGk" + b"=" * 500 + b"aGk=", b"hihi", None),
        ("quoted-printable", b"a=3Db=\r\nc", b"a=bc", None),
        ("quoted-printable", b"100% = 1\r\n", b"100% = 1\r\n", MailProblem.BAD_QUOTED_PRINTABLE),
        ("x-uuencode", b"begin 644 a\r\n#86)C\r\n`\r\nend\r\n", b"abc", None),
        ("x-uuencode", b"no beginning", None, MailProblem.BAD_UUENCODE),
        ("rot13", b"uryyb", None, MailProblem.UNKNOWN_TRANSFER_ENCODING),
    ],
)
def test_an_encoding_is_undone_or_its_problem_is_named(
    encoding: str, encoded: bytes, decoded: bytes | None, problem: MailProblem | None
) -> None:
    budget = make_budget()

    assert decode_transfer(encoded, encoding, budget) == (encoded if decoded is None else decoded)
    assert budget.problems == ({problem} if problem else set())
