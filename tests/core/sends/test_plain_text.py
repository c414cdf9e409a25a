"""Text made of HTML."""

import pytest

from mailonce.core.sends.plain_text import text_of_html


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>Hello", "Hello\n"),
        ("<style>a{b}</style><p>x<script>1</script><b style='display:none'>y</b>", "x\n"),
        ("<a href='https://x.y/z?a=1&amp;b=2'>here</a> or", "here (https://x.y/z?a=1&b=2) or\n"),
        ('<a href="https://x.y/">https://x.y/</a>', "https://x.y/\n"),
        ("<a href=mailto:a@b.c>write</a>", "write (a@b.c)\n"),
        ("<a href='javascript:x()'>no</a>", "no\n"),
        ("<a href='https://a.b/'>one</a>, <a href='https://c.d/'>two</a>!",
         "one (https://a.b/), two (https://c.d/)!\n"),
        ("", "\n"),
    ],
)  # fmt: skip
def test_a_link_is_followed_by_its_address(html: str, text: str) -> None:
    assert text_of_html(html) == text


@pytest.mark.parametrize("part", ["<a ", "<![", "<!--", "<a href='", "<a href=https://x.y>", "<"])
def test_broken_markup_is_read_all_the_same(part: str) -> None:
    assert text_of_html(part * 25_000).endswith("\n")
