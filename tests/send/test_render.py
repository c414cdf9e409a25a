"""Templates are rendered beside the loop, within bounds, and say what is wrong in a sentence."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from mailonce.core.sends.mail_content import UNSUBSCRIBE_PLACE
from mailonce.send.render import Renderer, TemplateError

ITEMS: dict[str, Any] = {"name": "Ann <3", "items": [{"n": 1}, {"n": 2}]}

WRONG = {
    "{{ missing }}": "'missing' is undefined; give it in `variables`",
    "{% if %}": "line 1: ",
    "{{ ''.__class__.__mro__ }}": "templates cannot reach that",
    "{{ name.__init__.__globals__ }}": "templates cannot reach that",
    "{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}": "steps",
    "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}": "too deep",
    "{{ 'a' * 1000000000 }}": "repeats a text too often",
    "{{ 9 ** 9 ** 9 }}": "power",
    "{{ '%1000000000d' % 1 }}": "formats with %",
    "{{ 'a'.ljust(1000000000) }}": "more than 100000 characters",
    "{{ '{:1000000000}'.format(1) }}": "too much memory",
    "{{ ('a' * 90000)|replace('a', 'b' * 90000) }}": "too much memory",
    "{% for i in range(90000) %}{{ 'x' * 100000 }}{% endfor %}": "more than 1000000 characters",
    "{% include '/etc/passwd' %}": "no loader",
    "{{ range(999999999) }}": "OverflowError",
}


@pytest_asyncio.fixture
async def renderer() -> AsyncIterator[Renderer]:
    made = Renderer(limit_s=20.0)
    yield made
    await made.close()


async def test_a_mail_is_rendered_for_each_set_of_variables(renderer: Renderer) -> None:
    mails = await renderer.render(
        subject="For {{ name }}",
        html="<p>Dear {{ name }}{% for one in items %}, {{ loop.index }}:{{ one.n }}{% endfor %} "
        "<a href='{{ unsubscribe_url }}'>no more</a>",
        text=None,
        variables=[ITEMS, {**ITEMS, "name": "Bob", "items": []}],
    )

    assert [mail.subject for mail in mails] == ["For Ann <3", "For Bob"]
    assert mails[0].html == (
        f"<p>Dear Ann &lt;3, 1:1, 2:2 <a href='{UNSUBSCRIBE_PLACE}'>no more</a>"
    )
    assert mails[0].text == f"Dear Ann <3, 1:1, 2:2 no more ({UNSUBSCRIBE_PLACE})\n"
    assert mails[1].text == f"Dear Bob no more ({UNSUBSCRIBE_PLACE})\n"


async def test_text_is_rendered_where_there_is_one(renderer: Renderer) -> None:
    [mail] = await renderer.render(
        subject="a", html=None, text="Dear {{ name }}\n", variables=[ITEMS]
    )

    assert (mail.html, mail.text) == (None, "Dear Ann <3\n")


async def test_what_is_wrong_is_told_and_the_next_one_is_rendered(
    renderer: Renderer, subtests: pytest.Subtests
) -> None:
    for html, words in WRONG.items():
        with subtests.test(html), pytest.raises(TemplateError) as refused:
            await renderer.render(subject="a", html=html, text=None, variables=[ITEMS])
        assert words in str(refused.value)
        assert "\n" not in str(refused.value)
    assert (
        await renderer.text_of("<p>Hi <a href='https://x.y/'>you</a>") == "Hi you (https://x.y/)\n"
    )


async def test_a_template_that_takes_too_long_is_stopped_and_others_go_on() -> None:
    renderer = Renderer(limit_s=0.2)
    # As many steps as there may be, each as slow as it may be: it takes seconds.
    step = "{% if (items|string * 4000)|upper|length %}{% endif %}"
    slow = "{% for i in range(90000) %}" + step + "{% endfor %}"
    try:
        with pytest.raises(TemplateError, match=r"it takes longer than 0\.2 s"):
            await renderer.render(subject="a", html=slow, text=None, variables=[ITEMS])

        renderer._limit_s = 20.0
        [mail] = await renderer.render(subject="b", html="b", text="b", variables=[ITEMS])
    finally:
        await renderer.close()

    assert mail.subject == "b"


async def test_a_template_is_checked_without_variables(renderer: Renderer) -> None:
    await renderer.check(subject="{{ a }}", html="{{ b.c }}", text=None)

    with pytest.raises(TemplateError, match="line 2"):
        await renderer.check(subject="a", html="a\n{% for %}", text=None)


async def test_nothing_of_this_process_reaches_the_one_that_renders(
    renderer: Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAILONCE_ADMIN_KEY", "secret-of-the-operator")
    await renderer.check(subject="a", html="a", text=None)

    assert renderer._process is not None
    environment = Path(f"/proc/{renderer._process.pid}/environ").read_bytes()
    assert b"secret-of-the-operator" not in environment
