"""HTML is cut as browsers cut it, each character a bounded number of times."""

from collections.abc import Mapping

import pytest

from mailonce.core.mail.html_tokens import (
    EndTag,
    HtmlTokens,
    StartTag,
    TextRun,
    decode_references,
)


def tokens_of(html: str) -> list[StartTag | EndTag | TextRun]:
    return list(HtmlTokens(html))


def attributes_of(html: str) -> Mapping[str, str]:
    (tag,) = tokens_of(html)
    assert isinstance(tag, StartTag)
    return tag.attributes


def test_tags_and_text() -> None:
    assert tokens_of("a<B ID=x>b</B >c") == [
        TextRun("a"),
        StartTag("b", {"id": "x"}),
        TextRun("b"),
        EndTag("b"),
        TextRun("c"),
    ]


def test_attributes_are_read_as_browsers_do(subtests: pytest.Subtests) -> None:
    cases = {
        "<a href=x/>": "x/",
        "<a href = 'x>y' >": "x>y",
        '<a alt="href=no" href="yes">': "yes",
        "<a/href=x/y>": "x/y",
        '<a href="1" href="2">': "1",
        "<a HREF=https://e.example/?a=1&amp;b=2&copy=3>": "https://e.example/?a=1&b=2&copy=3",
        '<a =href="no" href="yes">': "yes",
        "<a href>": "",
        '<a href="\n x">': "\n x",
    }
    for html, href in cases.items():
        with subtests.test(html):
            assert attributes_of(html)["href"] == href


def test_what_is_no_markup_is_text() -> None:
    assert tokens_of("1 < 2 <3 <") == [TextRun("1 < 2 <3 <")]


def test_comments_and_declarations_are_nothing(subtests: pytest.Subtests) -> None:
    for html in ("<!-- <b> -->", "<!-->", "<!--->", "<!doctype html>", "<?xml b?>", "</ b>", "</>",
                 "<!-- a --!>", "<![CDATA[ x ]]>", "<!---- ></b-->"):  # fmt: skip
        with subtests.test(html):
            assert tokens_of(html) == []


def test_a_comment_or_tag_that_never_ends_takes_the_rest(subtests: pytest.Subtests) -> None:
    for html in ("<!-- <b>x", '<a href="x>y', "<a href", "</a x", "<?x"):
        with subtests.test(html):
            assert tokens_of(html) == []


def test_scripts_and_styles_are_raw() -> None:
    assert tokens_of("<style>a<b>&amp;</Style >x") == [
        StartTag("style", {}),
        TextRun("a<b>&amp;", raw_of="style"),
        EndTag("style"),
        TextRun("x"),
    ]
    assert tokens_of("<title>a<b>&amp;") == [
        StartTag("title", {}),
        TextRun("a<b>&", raw_of="title"),
    ]


def test_cdata_is_text_in_svg_alone() -> None:
    tokens = HtmlTokens("<![CDATA[a]]>")
    tokens.is_foreign = True

    assert list(tokens) == [TextRun("a")]


def test_references_are_decoded_as_in_browsers(subtests: pytest.Subtests) -> None:
    cases = {
        "&amp;&lt;&#65;&#x41;&#X41;": "&<AAA",
        "&notit; &notin;": "¬it; ∉",
        "&#0;&#xD800;&#1114112;": "\ufffd\ufffd\ufffd",
        "&#128;": "€",
        "&#" + "9" * 5000 + ";": "\ufffd",
        "&#" + "0" * 5000 + "65;": "A",
        "&#12ab;": "\x0cab;",
        "&#;&#x;&;&unknown;": "&#;&#x;&;&unknown;",
        "&eacute;&nbsp;": "é\xa0",
    }
    for text, decoded in cases.items():
        with subtests.test(text[:20]):
            assert decode_references(text) == decoded


def test_references_in_attributes_leave_query_strings_alone() -> None:
    assert decode_references("?a=1&copy=2&reg&lt;x", is_attribute=True) == "?a=1&copy=2®<x"
