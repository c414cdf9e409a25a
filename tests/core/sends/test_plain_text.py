"""Text made of HTML."""

import pytest

from mailonce.core.sends.plain_text import text_of_html


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>Hello", "Hello\n"),
        ("<h1>Hi</h1><p>One<br>two</p><p>three</p>", "Hi\n\nOne\ntwo\n\nthree\n"),
        ("<head><title>T</title></head><style>a{b}</style><p>x<script>1</script>", "x\n"),
        ("<ul><li>one<li>two</ul>", "- one\n- two\n"),
        ("<a href='https://x.y/z?a=1&amp;b=2'>here</a>", "here (https://x.y/z?a=1&b=2)\n"),
        ('<a href="https://x.y">https://x.y</a>', "https://x.y\n"),
        ("<a href=mailto:a@b.c>write</a>", "write (a@b.c)\n"),
        ("<a href='javascript:x()'>no</a>", "no\n"),
        ("a &lt; b &amp;&nbsp;c &#8364; &#x20ac; &nope; &#99999999999;",
         "a < b &\xa0c € € &nope; &#99999999999;\n"),
        ("a<!-- b <p> -->c<!-- d", "ac\n"),
        ("<img alt='Logo' src=x> <img src=y>", "Logo\n"),
        ("", "\n"),
        ("2 < 3 and 4 > 3", "2 < 3 and 4 > 3\n"),
    ],
)  # fmt: skip
def test_blocks_are_lines_and_links_have_their_address(html: str, text: str) -> None:
    assert text_of_html(html) == text


@pytest.mark.parametrize(
    "part", ["<a ", "<![", "<!--", "</a", "&", "<a href='", "<script>", "<![CDATA[", "<", "href "]
)
def test_broken_markup_is_read_in_one_walk(part: str) -> None:
    # With a walk for each part this would not end within the limit of a test.
    assert text_of_html(part * 500_000).endswith("\n")
