import pytest

from mailonce.core.mail.mime.header_text import decode_header
from mailonce.core.mail.problem import MailProblem
from tests.core.mail.mails import make_budget


@pytest.mark.parametrize(
    ("value", "text", "problem"),
    [
        ("plain", "plain", None),
        ("=?utf-8?q?Gr=C3=BC=C3=9Fe_an?= Ann", "Grüße an Ann", None),
        ("=?UTF-8?B?R3LDvMOfZQ==?=", "Grüße", None),
        ("=?iso-8859-1*de?Q?Gr=FC=DFe?=", "Grüße", None),
        # Spaces between two encoded words do not count, others do.
        ("=?utf-8?q?a?=  =?utf-8?q?b?= c", "ab c", None),
        # A character that was cut in two.
        ("=?utf-8?b?R3LD?= =?utf-8?b?vMOfZQ==?=", "Grüße", None),
        ("=?utf-8?q?Hello World?=", "Hello World", None),
        ("=?utf-8?b?R3LDvMOfZQ?=", "Grüße", None),
        ("=?utf-8?b?R3L*?=", "=?utf-8?b?R3L*?=", MailProblem.BAD_ENCODED_WORD),
        ("=?utf-8?q?cut off", "=?utf-8?q?cut off", MailProblem.BAD_ENCODED_WORD),
        ("=?x-strange?q?abc?=", "abc", MailProblem.UNKNOWN_CHARSET),
        ("=?utf-8?q?a=0D=0ABcc:_x@example.com?=", "a Bcc: x@example.com", None),
        ("a=\x07b", "a= b", MailProblem.CONTROL_CHARACTERS),
        ("grüße", "grüße", None),
        ("gr\udcfc\udcdfe aus M\udcfcnchen", "grüße aus München", MailProblem.RAW_HEADER_BYTES),
        ("=?gb2312?B?0enWpMLr?=", "验证码", None),
        ("=?iso-2022-jp?B?GyRCJDMkcyRLJEEkTxsoQg==?=", "こんにちは", None),
        ("=?koi8-r?B?8NLJ18XU?=", "Привет", None),
    ],
)
def test_a_field_is_decoded_to_one_line(value: str, text: str, problem: MailProblem | None) -> None:
    budget = make_budget()

    assert decode_header(value, budget) == text
    assert budget.problems == ({problem} if problem else set())
