import pytest

from mailonce.core.mail.mime.parameters import content_type_of, read_value
from tests.core.mail.mails import make_budget


@pytest.mark.parametrize(
    ("value", "word", "parameters"),
    [
        ("Text/Plain", "text/plain", {}),
        ('a; name="x y"; B=2', "a", {"name": "x y", "b": "2"}),
        ('a; name="x\\"y;z"', "a", {"name": 'x"y;z'}),
        ("a; name = x y ; ", "a", {"name": "x y"}),
        ("a;; name=x;;", "a", {"name": "x"}),
        ("a; filename*=utf-8''%C3%BCber.pdf", "a", {"filename": "über.pdf"}),
        ("a; filename=plain.pdf; filename*=utf-8''%C3%BC.pdf", "a", {"filename": "ü.pdf"}),
        ("a; f*0*=utf-8''%C3; f*1*=%BC; f*2=.pdf", "a", {"f": "ü.pdf"}),
        ("a; f*1=b; f*0=a", "a", {"f": "ab"}),
        ("a; f*0==?utf-8?q?=C3=BC; f*1=x?=", "a", {"f": "üx"}),
        ('a; name="=?utf-8?q?=C3=BC.pdf?="', "a", {"name": "ü.pdf"}),
        ("a; name=\udcfc.pdf", "a", {"name": "ü.pdf"}),
        ('a; boundary="=?utf-8?q?x?="', "a", {"boundary": "=?utf-8?q?x?="}),
        ('a; name="never closed', "a", {"name": "never closed"}),
        ("a; f*=no'charset", "a", {"f": "no'charset"}),
    ],
)
def test_parameters_are_read_in_all_their_spellings(
    value: str, word: str, parameters: dict[str, str]
) -> None:
    read = read_value(value, make_budget())

    assert (read.word, read.parameters) == (word, parameters)


def test_a_value_is_bounded() -> None:
    read = read_value("a" + "".join(f"; p{n}=x" for n in range(5_000)), make_budget())

    assert len(read.parameters) == 100


@pytest.mark.parametrize(
    ("word", "type_"),
    [("text/plain", "text/plain"), (" Text / HTML ", "text/html"), ("text", None), ("a/b/c", None)],
)
def test_a_type_has_two_words(word: str, type_: str | None) -> None:
    assert content_type_of(word) == type_
