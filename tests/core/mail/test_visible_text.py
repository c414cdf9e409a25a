"""What a person sees of HTML, and nothing else; whatever the HTML."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.mail import visible_text
from mailonce.core.mail.visible_text import Anchor, read_visible_text

# What is seen of each document.
CASES = {
    # Words, lines and cells.
    "<p>a</p><p>b</p>": "a\nb",
    "a <b>b</b>c": "a bc",
    "<span>482</span><span>910</span>": "482910",
    "<span>482</span> <span>910</span>": "482 910",
    "<table><tr><td>4</td><td>8</td></tr><tr><td>2</td></tr></table>": "4 8\n2",
    "<table><tr><td>4<td>8<tr><td>2</table>": "4 8\n2",
    "a<br>b<br/>c</br>d": "a\nb\nc\nd",
    "a<br><br><br><br>b": "a\n\nb",
    "  a \n\t b&nbsp;&nbsp;c  ": "a b c",
    "<pre>a\n b  c</pre>d": "a\nb c\nd",
    '<div style="display:inline-block">4</div><div style="display:inline-block">8</div>': "48",
    '<span style="display:block">a</span>b': "a\nb",
    "<ul><li>a<li>b</ul>c": "a\nb\nc",
    "a&shy;b &amp; c": "ab & c",
    "4<wbr>8": "48",
    "4<!-- x -->8": "48",
    "a<img alt='no' title='no' src='https://t.example/p.gif'>b": "a b",
    "": "",
    "plain text, 1 < 2": "plain text, 1 < 2",
    # What nobody sees.
    "<head><title>no</title><style>no</style></head><body>yes</body>": "yes",
    "<head>yes": "yes",
    "<script>no</script><noscript>no</noscript><template>no</template>yes": "yes",
    "<!--[if mso]>no<![endif]--><!--[if !mso]><!-->yes<!--<![endif]-->": "yes",
    "<p hidden>no</p>yes": "yes",
    '<p aria-hidden="true">yes</p>': "yes",
    '<div style="display:none">no<div>no</div>no</div>yes': "yes",
    '482<span style="display:none">111</span>910': "482910",
    '<td style="display:none">yes, for a cell outside of tables is nothing': (
        "yes, for a cell outside of tables is nothing"
    ),
    '<div style="font-size:0"><span style="font-size:9px">yes</span>no</div>': "yes",
    '<table bgcolor="black"><tr><td style="color:#fff">yes<td style="color:#010101">no</table>': (
        "yes"
    ),
    '<font color="white">no</font>yes': "yes",
    '<body bgcolor="#000000" text="#ffffff">yes</body>and this': "yesand this",
    "<select><option>no</select><dialog>no</dialog><dialog open>yes</dialog>": "yes",
    "<iframe>no</iframe><object>no</object><video>no</video>yes": "yes",
    "<textarea>yes &amp; so</textarea>": "yes & so",
    "<svg><text>no</text></svg>yes": "yes",
    # Broken markup, read as browsers do: what is moved into or out of a hidden element.
    '<p style="display:none">no<div>yes</div>': "yes",
    '<p><font style="display:none">no</p>no</font>yes': "yes",
    '<b><div style="display:none"></b>no</div>yes': "yes",
    '<b style="display:none"><div>no</b>yes</div>': "yes",
    "<span hidden><div>no</span>no</div>no</span>yes": "yes",
    "<div hidden><table><tr><td></div>no</table>no</div>yes": "yes",
    '<a hidden href="x">no<a href="y">yes</a>': "yes",
    "<li hidden>no<li>yes": "yes",
    "<table><tr hidden><td>no<tr><td>yes</table>": "yes",
    '<svg style="display:none"><foreignObject><div>no</div></svg>yes': "yes",
    "<svg><title><![CDATA[</title></svg>no]]></svg>yes": "yes",
    "<svg><div>yes": "yes",
    '<div style="display:none" style="display:block">no</div>yes': "yes",
    "<div STYLE='DISPLAY : NONE'>no</div>yes": "yes",
    "<div style='d\\69splay:none'>no</div>yes": "yes",
    "<div hidden>no</html></body>no": "",
    "<bdo dir=rtl>no</bdo>yes": "yes",
    '<p hidden style="display:block">yes': "yes",
    # Rules of sheets, wherever they stand.
    "<style>.x{display:none}</style><p class='a x'>no<p>yes": "yes",
    "<p class=x>no<p>yes<style>.x{display:none}</style>": "yes",
    "<style>#x{display:none}</style><p id=x style='display:block'>yes": "yes",
    "<style>#x{display:none!important}</style><p id=x style='display:block'>no</p>yes": "yes",
    "<style>.b{background:#00f}</style><a class=b style='color:#fff'>yes</a>": "yes",
    "<style>body{background:#000;color:#fff}</style>yes<p style='color:#000'>no": "yes",
    "<style>@media (max-width:480px){.x{display:none}}</style><p class=x>yes": "yes",
    "<style>@media (min-width:1px){.x{display:none}}</style><p class=x>no</p>yes": "yes",
    "<style media=print>.x{display:none}</style><p class=x>yes": "yes",
    "<svg><style>.x{display:none}</style></svg><p class=x>no</p>yes": "yes",
    "yes<!-- no": "yes",
    'yes<a href="no': "yes",
}  # fmt: skip


def test_what_a_person_sees(subtests: pytest.Subtests) -> None:
    for html, seen in CASES.items():
        with subtests.test(html):
            assert read_visible_text(html).text == seen


def test_anchors_have_their_text_and_its_place() -> None:
    html = (
        'Please <a href=" https://a.example/v?a=1&amp;b=2 "><b>verify</b> now</a>, '
        '<a href="https://b.example"><img src="x"></a>or <a name="x">not</a>.'
    )

    result = read_visible_text(html)

    assert result.text == "Please verify now, or not."
    assert result.anchors == (
        Anchor(href="https://a.example/v?a=1&b=2", text="verify now", start=7, end=17),
        Anchor(href="https://b.example", text="", start=18, end=18),
    )


def test_an_anchor_that_nobody_sees_is_none() -> None:
    html = (
        '<div style="display:none"><a href="https://hidden.example">verify</a></div>'
        '<a style="color:#fff" href="https://white.example">verify</a>'
        '<a style="color:#fff" href="https://seen.example"><span style="background:blue">go</span>'
        "</a>"
    )

    assert [anchor.href for anchor in read_visible_text(html).anchors] == ["https://seen.example"]


def test_a_link_around_blocks_has_all_their_text() -> None:
    html = '<a href="https://a.example"><div>one</div><div>two</div></a>three'

    result = read_visible_text(html)

    assert [(anchor.text, anchor.start) for anchor in result.anchors] == [("one\ntwo", 0)]


def test_hidden_text_is_counted() -> None:
    assert read_visible_text("<p hidden>12 34</p>5").hidden_chars == 4


def test_limits_cut_and_say_so(monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    with subtests.test("characters of text"):
        assert read_visible_text("abcdef", chars_max=3).text == "abc"
        assert read_visible_text("abcdef", chars_max=3).is_truncated
        assert not read_visible_text("abc", chars_max=3).is_truncated
    with subtests.test("depth"):
        result = read_visible_text("a" + "<div>" * 10_000 + "b")
        assert (result.text, result.is_truncated) == ("a", True)
    with subtests.test("characters of HTML"):
        monkeypatch.setattr(visible_text, "HTML_CHARS_MAX", 4)
        result = read_visible_text("abcd<p>e")
        assert (result.text, result.is_truncated) == ("abcd", True)
    with subtests.test("an address that is too long"):
        monkeypatch.undo()
        result = read_visible_text(f'<a href="https://a.example/{"x" * 9000}">a</a>')
        assert (result.text, result.anchors, result.is_truncated) == ("a", (), True)


FRAGMENTS = st.sampled_from(
    ["<div>", "</div>", "<p>", "</p>", "<b>", "</b>", "<a href=x>", "</a>", "<table>", "</table>",
     "<tr>", "<td>", "</td>", "<span hidden>", "</span>", "<svg>", "</svg>", "<![CDATA[", "]]>",
     "<!--", "-->", "<style>", "</style>", '"', "'", "<", ">", "&", "&#", "&amp", "482910", " ",
     "x", '<div style="display:none">', "<li>", "<h1>", "</h2>",
     "<font color=white>", "</font>",
     "<foreignObject>", "<pre>", "\n", "<br>", "<template>", "<select>", "<option>", "\u202e"]
)  # fmt: skip


@given(st.lists(FRAGMENTS | st.text(max_size=5), max_size=60))
def test_nothing_raises_and_anchors_lie_where_they_say(fragments: list[str]) -> None:
    result = read_visible_text("".join(fragments))

    assert result == read_visible_text("".join(fragments))
    assert result.text == result.text.strip(" \n")
    for anchor in result.anchors:
        assert result.text[anchor.start : anchor.end] == anchor.text
