import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mailonce.core.mail.bodies import MailBody, clean_text, read_body
from mailonce.core.mail.budget import DigestLimits
from mailonce.core.mail.mime.part_tree import read_part_tree
from mailonce.core.mail.problem import MailProblem
from tests.core.mail.mails import make_budget, make_mail, make_multipart

TEXT, HTML = "Content-Type: text/plain", "Content-Type: text/html"
PNG = "Content-Type: image/png; name=a.png"


def body_of(raw: bytes) -> MailBody:
    budget = make_budget()
    return read_body(read_part_tree(raw, budget), budget)


@pytest.mark.parametrize(
    ("kind", "parts", "text", "origin", "html", "attached"),
    [
        ("alternative", [(TEXT, "t"), (HTML, "<p>h")], "t", "part", "<p>h", []),
        ("alternative", [(HTML, "<p>h")], "h", "html", "<p>h", []),
        ("alternative", [(TEXT, " "), (HTML, "<p>h")], "h", "html", "<p>h", []),
        ("mixed", [(TEXT, "a"), (TEXT, "b")], "a\nb", "part", None, []),
        ("mixed", [(TEXT, "a"), (PNG, "x"), (TEXT, "b")], "a\nb", "part", None, ["a.png"]),
        ("mixed", [(HTML, "<p>a"), (TEXT, "foot")], "a\nfoot", "part", "<p>a", []),
        ("mixed", [(TEXT, "a"), (f"{TEXT}; name=b.txt", "b")], "a", "part", None, ["b.txt"]),
        ("mixed", [(f"{TEXT}\nContent-Disposition: attachment", "a")], None, "part", None, [None]),
        ("related", [(HTML, "<p>a"), (PNG, "x")], "a", "html", "<p>a", ["a.png"]),
        ("related", [(PNG, "x"), (HTML, "<p>a")], "a", "html", "<p>a", ["a.png"]),
        ("unknown", [(TEXT, "a")], "a", "part", None, []),
    ],
)
def test_the_body_and_the_attachments_are_told_apart(
    kind: str,
    parts: list[tuple[str, str]],
    text: str | None,
    origin: str,
    html: str | None,
    attached: list[str | None],
) -> None:
    body = body_of(make_multipart(kind, parts))

    assert (body.text, body.text_origin, body.html) == (text, origin, html)
    assert [one.name for one in body.attachments] == attached


def test_a_mail_that_is_one_attachment_has_no_text() -> None:
    body = body_of(make_mail("%PDF-1", "Content-Type: application/pdf; name=a.pdf"))

    assert (body.text, body.html) == (None, None)
    assert [one.detected_type for one in body.attachments] == ["application/pdf"]


def test_text_and_html_are_cut_at_their_limits() -> None:
    budget = make_budget(DigestLimits(text_chars_max=3, html_chars_max=5))
    raw = make_multipart("alternative", [(TEXT, "abcdef"), (HTML, "<p>abcdef")])

    body = read_body(read_part_tree(raw, budget), budget)

    assert (body.text, body.html) == ("abc", "<p>ab")
    assert budget.problems == {MailProblem.TEXT_TRUNCATED, MailProblem.HTML_TRUNCATED}


def test_text_can_be_stored_and_its_lines_end_alike() -> None:
    assert clean_text("a\r\nb\rc\x00d\x1be\ud800\tf") == "a\nb\nc\ufffdd\ufffde\ufffd\tf"


@example("\r\r\n")
@given(st.text(st.sampled_from("a\r\n\t\xa0\x00\x01\x0b\x0c\x1b\x7f\x85\xad\u2028\ud800é")))
def test_text_is_cleaned_alike_whatever_stands_beside(text: str) -> None:
    """Each character by itself, but for a CR with its LF."""
    expected = [
        "\n" if char in "\r\x0b\x0c\x85\u2028\u2029"
        else "\ufffd" if char in "\x00\x01\x1b\x7f\ud800"
        else char
        for number, char in enumerate(text)
        if text[max(0, number - 1) : number + 1] != "\r\n"
    ]  # fmt: skip

    assert clean_text(text) == "".join(expected)
