"""An answer that cannot be read is an outage in one sentence; of a send, with the key to repeat."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mailonce.client import calls, flows
from mailonce.client.steps import ApiAnswer
from mailonce.errors import UnavailableError
from tests.client.test_flows import LOST, SENT, Script, answer, send

UNREADABLE = {
    "page of a proxy": ApiAnswer(200, {"content-type": "text/html"}, b"<html>Welcome</html>"),
    "cut": ApiAnswer(202, {"content-type": "application/json"}, b'{"id": "snd_1", "ke'),
    "no text": ApiAnswer(200, {}, b"\xff\xfe{"),
    "empty": ApiAnswer(202, {}, b""),
    "no content": ApiAnswer(204, {}, b""),
    "other object": answer({"hello": 1}, 202),
    "list": answer([1], 200),
    "number": answer(7),
    "list of others": answer({"data": [7]}),
}
CALLS: dict[str, Callable[..., Any]] = {
    "find_send": lambda context: calls.find_send(context, "snd_1"),
    "find_inbox": lambda context: calls.find_inbox(context, "inb_1"),
    "find_message": lambda context: calls.find_message(context, "inb_1", "msg_1"),
    "find_expectation": lambda context: calls.find_expectation(context, "exp_1", 0),
    "consume": lambda context: calls.consume(context, "exp_1", "key"),
    "put_message": lambda context: calls.put_message(
        context, "inb_1", b"Subject: a", to=None, from_=None
    ),
    "read_messages": lambda context: flows.read_messages(context, "inb_1", after=0),
}
SENTENCE = r"^http://s answered 20\d, but not as mailonce does; correct the URL of the server"


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_send_whose_answer_cannot_be_read_says_its_key(name: str) -> None:
    keys: list[str] = []

    with pytest.raises(UnavailableError, match=SENTENCE) as caught:
        send(Script([UNREADABLE[name]]), on_key=keys.append)

    assert caught.value.members == {"key": keys[0]}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", UNREADABLE)
def test_any_other_call_says_the_same(name: str, call: str) -> None:
    script = Script([UNREADABLE[name]])

    with pytest.raises(UnavailableError, match=SENTENCE) as caught:
        script.run(CALLS[call](script.context))

    assert not caught.value.members


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_proxy_without_its_server_is_an_outage_and_no_wrong_url(status: int) -> None:
    bad = ApiAnswer(status, {"content-type": "text/html"}, b"<html>Bad Gateway</html>")

    [sent] = send(Script([bad, bad, answer(SENT, 202)]))
    with pytest.raises(UnavailableError, match=rf"answered {status}; the server, or a") as caught:
        send(Script([bad] * 100))

    assert sent.id == "snd_1"
    assert "URL" not in str(caught.value)
    assert caught.value.members["key"]


@pytest.mark.parametrize("retry_s", [0.5, 2, 20])
def test_a_request_is_sent_again_for_all_of_its_time(retry_s: float) -> None:
    script = Script([LOST] * 100)
    began_s = script.now_s

    with pytest.raises(UnavailableError):
        script.run(calls.find_inbox(replace(script.context, retry_s=retry_s), "inb_1"))

    assert script.now_s - began_s == pytest.approx(retry_s, abs=0.05)


def test_a_time_beyond_the_end_is_not_waited_for() -> None:
    script = Script([ApiAnswer(503, {"retry-after": "25"}, b"")])

    with pytest.raises(UnavailableError):
        send(script)

    assert script.slept == []
