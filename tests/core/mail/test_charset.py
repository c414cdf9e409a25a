import pytest

from mailonce.core.mail.mime.charset import codec_of, decode_html, decode_text
from mailonce.core.mail.problem import MailProblem
from tests.core.mail.mails import make_budget


@pytest.mark.parametrize(
    ("label", "codec"),
    [
        ("UTF-8", "utf_8"),
        ("utf8", "utf_8"),
        ("ISO-8859-1", "cp1252"),
        ("iso_8859-15", "iso8859_15"),
        ("Windows-1251", "cp1251"),
        ("koi8-r", "koi8_r"),
        ("GB2312", "gb18030"),
        ("Shift_JIS", "cp932"),
        ("ks_c_5601-1987", "cp949"),
        ("utf-8*en", "utf_8"),
        ("idna", None),
        ("punycode", None),
        ("unicode_escape", None),
        ("zlib", None),
        ("x" * 10_000, None),
    ],
)
def test_only_charsets_of_the_table_have_a_codec(label: str, codec: str | None) -> None:
    assert codec_of(label) == codec


@pytest.mark.parametrize(
    ("content", "label", "text", "problem"),
    [
        ("Grüße".encode("latin-1"), "iso-8859-1", "Grüße", None),
        (b"\x80 100", "iso-8859-1", "€ 100", None),
        (b"a\x81b", "iso-8859-1", "a\x81b", None),
        ("Grüße".encode(), "iso-8859-1", "Grüße", MailProblem.WRONG_CHARSET),
        ("Grüße".encode(), None, "Grüße", MailProblem.GUESSED_CHARSET),
        (b"plain", "no-such-charset", "plain", MailProblem.UNKNOWN_CHARSET),
        ("Grüße".encode(), "no-such-charset", "Grüße", MailProblem.UNKNOWN_CHARSET),
        ("Здравствуйте, это письмо".encode("koi8-r"), "koi8-r", "Здравствуйте, это письмо", None),
        ("こんにちは".encode("iso-2022-jp"), "iso-2022-jp", "こんにちは", None),
        ("验证码".encode("gb18030"), "gb2312", "验证码", None),
        ("驗證碼".encode("big5"), "big5", "驗證碼", None),
        ("안녕하세요".encode("euc-kr"), "euc-kr", "안녕하세요", None),
        ("Grüße, Müller".encode() + b"\xc3", "utf-8", "Grüße, Müller\ufffd",
         MailProblem.UNDECODABLE_BYTES),
        ("Größe, Fuß, Übung und Äpfel".encode("cp1252"), "utf-8", "Größe, Fuß, Übung und Äpfel",
         MailProblem.WRONG_CHARSET),
        (b"\xef\xbb\xbfmarked \xc3\xbc", "us-ascii", "marked ü", None),
        ("wide ü".encode("utf-16"), "utf-16", "wide ü", None),
    ],
)  # fmt: skip
def test_text_is_decoded_and_what_is_wrong_is_named(
    content: bytes, label: str | None, text: str, problem: MailProblem | None
) -> None:
    budget = make_budget()

    assert decode_text(content, label, budget).text == text
    assert budget.problems == ({problem} if problem else set())


def test_a_guess_is_made_a_few_times_only() -> None:
    budget = make_budget()
    content = "Здравствуйте, ваш код подтверждения".encode("cp1251")

    texts = [decode_text(content, None, budget).text for _ in range(10)]

    assert texts[0] == "Здравствуйте, ваш код подтверждения"
    assert len(set(texts)) == 2
    assert texts[-1] == content.decode("cp1252")


def test_html_may_declare_its_charset_itself() -> None:
    page = '<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">Привет'

    assert decode_html(page.encode("cp1251"), None, make_budget()).text == page


def test_only_what_the_declared_charset_says_is_exact() -> None:
    budget = make_budget()

    assert decode_text("ü".encode(), "utf-8", budget).is_exact
    assert not decode_text("ü".encode(), "latin1", budget).is_exact
    assert not decode_text("ü".encode("latin-1"), None, budget).is_exact
