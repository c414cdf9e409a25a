"""A handler's arguments of a wrong kind are refused where they are written, with what to write."""

from typing import Any

import pytest

from mailonce import Handlers
from mailonce.errors import ConfigError

WRONG: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "list of events": (
        (["bounced", "complained"],),
        {},
        r'each event is a text of its own; write `@handlers.on\("bounced", "complained"\)`',
    ),
    "number as event": ((7,), {}, r'each event is a text of its own; write `@handlers.on\("boun'),
    "one wait": ((), {"waits_s": 5}, r"`waits_s` is 5; give numbers of seconds.* `\(5, 30\)`"),
    "waits as text": ((), {"waits_s": "5"}, r"`waits_s` is '5'; give numbers of seconds"),
    "wait as text": ((), {"waits_s": ["5"]}, r"`waits_s` is \['5'\]; give numbers of seconds"),
    "wait that is none": ((), {"waits_s": (True,)}, "`waits_s` is"),
    "one tag": ((), {"tags": "vip"}, r'`tags` is \'vip\'; give a list of texts.*`\["vip"\]`'),
    "no sources": ((), {"sources": None}, "`sources` is None; give a list of texts"),
    "domain of bytes": ((), {"domains": [b"a.org"]}, "`domains` is .*; give a list of texts"),
    "metadata": ((), {"metadata": ["a"]}, r"`metadata` is \['a'\]; give a dict"),
    "expression": ((), {"expression": 7}, "`expression` is 7; give a text"),
    "workspace": ((), {"workspace": None}, "`workspace` is None; give a text"),
    "name": ((), {"name": 7}, "`name` is 7; give a text"),
    "deadline": ((), {"deadline_s": "1d"}, "`deadline_s` is '1d'; give a number"),
    "limit": ((), {"limit_s": "5"}, "`limit_s` is '5'; give a number"),
    "concurrency": ((), {"concurrency": None}, "`concurrency` is None; give a number"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_value_of_the_wrong_kind_is_refused_at_the_decorator(case: str) -> None:
    events, options, sentence = WRONG[case]

    with pytest.raises(ConfigError, match=sentence):
        Handlers().on(*events, **options)


def test_values_of_the_right_kinds_are_taken() -> None:
    handlers = Handlers()

    @handlers.on(
        "bounced", waits_s=[0.5, 30], tags=["vip"], domains=("a.org",), metadata={"a": 1}, limit_s=1
    )
    def note(event: Any, tx: Any) -> None: ...

    [handler] = handlers
    assert (handler.route.waits_s, handler.route.tags) == ((0.5, 30), ("vip",))
