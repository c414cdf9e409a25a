"""Flows without a network: what is sent again, under which key, and when a wait ends."""

import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from mailonce.client import calls, flows
from mailonce.client.errors_of_answers import WaitTimeoutError
from mailonce.client.flows import FlowContext
from mailonce.client.message_match import MessageMatch
from mailonce.client.records import InboxRecord
from mailonce.client.steps import (
    ApiAnswer,
    ApiRequest,
    Exchange,
    Flow,
    LostConnectionError,
    OpenStream,
    ReadStream,
    Sleep,
    Step,
)
from mailonce.errors import ClashError, ConfigError, ParseError, UnavailableError, VerifyError

LOST = LostConnectionError("reset")
# The server is paused: nothing comes for as long as the client waits, now and ever after.
HANGS = object()


@dataclass
class Script:
    """Answers requests one after the other, and lets time pass as the flow waits."""

    answers: list[Any]
    now_s: float = 100.0
    requests: list[ApiRequest] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)
    stream: list[Any] = field(default_factory=list)
    chance: float = 1.0

    @property
    def context(self) -> FlowContext:
        return FlowContext(
            url="http://s",
            timeout_s=5,
            retry_s=20,
            now=lambda: self.now_s,
            chance=lambda: self.chance,
        )

    def run(self, flow: Flow[Any]) -> Any:
        try:
            step = next(flow)
            while True:
                result = self._do(step)
                lost = isinstance(result, LostConnectionError)
                step = flow.throw(result) if lost else flow.send(result)
        except StopIteration as end:
            return end.value

    def _do(self, step: Step) -> Any:
        match step:
            case Sleep(seconds=seconds):
                self.slept.append(seconds)
                self.now_s += seconds
                return None
            case ReadStream(timeout_s=timeout_s):
                data = self.stream.pop(0) if self.stream else None
                self.now_s += timeout_s if data is None else 0.01
                return data
            case Exchange(request=request) | OpenStream(request=request):
                self.requests.append(request)
                if self.answers[0] is HANGS:
                    self.now_s += step.timeout_s
                    return LOST
                self.now_s += 0.01
                answer = self.answers.pop(0)
                return answer(request) if callable(answer) else answer


def answer(body: Any, status: int = 200, **headers: str) -> ApiAnswer:
    return ApiAnswer(status, headers, json.dumps(body).encode())


def problem(status: int, word: str, detail: str = "so it is", **members: Any) -> ApiAnswer:
    body = {"type": f"urn:mailonce:{word}", "status": status, "detail": detail, **members}
    return answer(body, status, **{"content-type": "application/problem+json"})


def message(seq: int, sender: str = "a@x.org", subject: str = "Hi") -> dict[str, Any]:
    return {
        "id": f"msg_{seq}",
        "seq": seq,
        "inbox": "inb_1",
        "from": {"address": sender, "name": ""},
        "subject": subject,
        "text": "t",
        "html": None,
        "received_at": "2026-01-01T00:00:00Z",
    }


def page(*messages: dict[str, Any], after: int = 0) -> ApiAnswer:
    last = messages[-1]["seq"] if messages else after
    return answer({"data": messages, "next": last, "listening_since": None, "refused": []})


def events(*messages: dict[str, Any]) -> bytes:
    return b"".join(b"event: message\ndata: %s\n\n" % json.dumps(m).encode() for m in messages)


SENT = {"id": "snd_1", "key": "k", "state": "pending", "to": "a@x.org"}


def send(script: Script, **fields: Any) -> Any:
    given = {"key": None, "on_key": None, "fields": {"text": "Hi"}, **fields}
    return script.run(calls.send(script.context, "a@x.org", from_="b@x.org", **given))


def test_a_lost_answer_is_asked_for_again_under_the_same_key() -> None:
    script = Script([LOST, problem(503, "unavailable"), answer(SENT, 202)])
    keys: list[str] = []

    [sent] = send(script, on_key=keys.append)

    assert sent.id == "snd_1"
    assert len(script.requests) == 3
    assert {request.headers["Idempotency-Key"] for request in script.requests} == set(keys)


def test_the_key_is_known_before_the_first_attempt() -> None:
    script = Script([])
    keys: list[str] = []

    def fail(key: str) -> None:
        keys.append(key)
        raise RuntimeError("the caller's database is away")

    with pytest.raises(RuntimeError):
        send(script, on_key=fail)

    assert keys
    assert script.requests == []


def test_a_send_that_was_never_answered_says_its_key() -> None:
    script = Script([LOST] * 100)
    keys: list[str] = []

    with pytest.raises(UnavailableError) as caught:
        send(script, on_key=keys.append)

    assert caught.value.members["key"] == keys[0]
    assert 15 < sum(script.slept) <= 20, "it is sent again for retry_s, and no longer"


def test_a_cause_makes_the_key_on_the_server() -> None:
    script = Script([answer(SENT, 202)])

    send(script, fields={"cause_id": "order-1", "template": "receipt"})

    assert "Idempotency-Key" not in script.requests[0].headers


@pytest.mark.parametrize(
    ("status", "word", "kind"),
    [(400, "parse", ParseError), (409, "clash", ClashError), (401, "verify", VerifyError)],
)
def test_what_is_refused_is_not_sent_again(status: int, word: str, kind: type[Exception]) -> None:
    script = Script([problem(status, word, retry_at="2026-01-01T00:00:00Z")])

    with pytest.raises(kind, match="so it is") as caught:
        send(script)

    assert caught.value.members == {"retry_at": "2026-01-01T00:00:00Z"}  # type: ignore[attr-defined]


def test_a_server_that_names_a_time_is_left_alone_until_then() -> None:
    busy = ApiAnswer(429, {"retry-after": "7"}, b"")
    script = Script([busy, answer(SENT, 202)])

    send(script)

    assert script.slept == [7.0]


def wait(script: Script, **fields: Any) -> Any:
    match = MessageMatch(**{name: fields.pop(name) for name in ("sender",) if name in fields})
    given = {"after": 0, "timeout_s": 60.0, **fields}
    return script.run(flows.wait_for_message(script.context, "inb_1", match, **given))


def test_mail_that_is_there_already_needs_no_stream() -> None:
    script = Script([page(message(1), message(2))])

    assert wait(script, after=0).seq == 1


def test_a_message_counts_once_whichever_way_it_came() -> None:
    script = Script([page(message(1, "no@x.org")), page(after=1), answer({})])
    script.stream = [
        events(message(1, "ann@y.org"), message(2, "no@x.org")),
        events(message(3, "ann@y.org")),
    ]

    assert wait(script, sender="@y.org").seq == 3


def test_a_silent_stream_is_checked_by_reading() -> None:
    script = Script([page(), answer({}), page(message(4))])
    script.stream = [None]

    assert wait(script).seq == 4
    assert script.requests[-1].path == "/v1/inboxes/inb_1/messages?after=0"


def test_a_stream_that_ends_is_opened_again_behind_what_was_seen() -> None:
    script = Script([page(), answer({}), LOST, page(after=2), answer({})])
    script.stream = [events(message(2, "no@x.org")), b"", events(message(3))]
    wanted = "a@x.org"

    assert wait(script, sender=wanted).seq == 3
    assert script.requests[-1].path == "/v1/inboxes/inb_1/stream?after=2"


def test_without_a_stream_it_asks_with_a_wait() -> None:
    script = Script([page(), problem(403, "access"), page(message(5))])

    assert wait(script).seq == 5
    assert script.requests[-1].path == "/v1/inboxes/inb_1/messages?after=0&wait=10.0"


def test_mail_that_was_deleted_meanwhile_is_passed_over() -> None:
    script = Script([problem(410, "gone", next=8, lost=8), page(message(9))])

    assert wait(script).seq == 9
    assert "after=8" in script.requests[-1].path


def test_a_wait_ends_at_its_deadline() -> None:
    script = Script([page(), answer({}), *[page()] * 20])

    with pytest.raises(WaitTimeoutError, match="came to inb_1 within 25 s"):
        wait(script, timeout_s=25.0)

    assert 125 <= script.now_s < 126


def test_a_wait_in_vain_names_the_address_where_it_is_known() -> None:
    inbox = InboxRecord(id="inb_1", address="a@in.example.com", expires_at=None, json={})
    script = Script([page(), answer({}), *[page()] * 20])

    with pytest.raises(WaitTimeoutError, match=r"came to a@in\.example\.com within 25 s"):
        script.run(
            flows.wait_for_message(script.context, inbox, MessageMatch(), after=0, timeout_s=25.0)
        )

    assert script.requests[0].path.startswith("/v1/inboxes/inb_1/")


@pytest.mark.parametrize("answers", [[HANGS], [LOST] * 1000, [page(), HANGS]])
def test_a_wait_ends_near_its_deadline_though_nobody_answers(answers: list[Any]) -> None:
    for timeout_s in (0.5, 8.0, 120.0):
        script = Script(list(answers))

        with pytest.raises(UnavailableError):
            wait(script, timeout_s=timeout_s)

        assert timeout_s - flows.PAUSE_S_MAX <= script.now_s - 100 <= timeout_s + 3


@pytest.mark.parametrize("answers", [[HANGS], [LOST] * 1000])
def test_so_does_a_wait_for_an_expectation(answers: list[Any]) -> None:
    for timeout_s in (0.5, 8.0, 120.0):
        script = Script(list(answers))

        with pytest.raises(UnavailableError):
            script.run(flows.wait_for_expectation(script.context, "exp_1", timeout_s=timeout_s))

        assert timeout_s - flows.PAUSE_S_MAX <= script.now_s - 100 <= timeout_s + 3


def expectation(state: str, **fields: Any) -> ApiAnswer:
    return answer({"id": "exp_1", "state": state, "artifact": None, **fields})


def test_a_wait_for_an_expectation_goes_on_while_it_is_pending() -> None:
    script = Script([expectation("pending"), LOST, expectation("pending"), expectation("ready")])

    record = script.run(flows.wait_for_expectation(script.context, "exp_1", timeout_s=60))

    assert record.state == "ready"


def test_a_mail_that_is_held_back_ends_a_wait_only_where_no_other_may_come() -> None:
    held_back = expectation("quarantined", waiting=True)
    ready = Script([held_back, held_back, expectation("ready", waiting=False)])
    over = Script([held_back, expectation("quarantined", waiting=False)])

    records = [
        script.run(flows.wait_for_expectation(script.context, "exp_1", timeout_s=60))
        for script in (ready, over)
    ]

    assert [one.state for one in records] == ["ready", "quarantined"]


def test_a_wait_for_an_expectation_gives_it_as_it_stands() -> None:
    def held_back(request: ApiRequest) -> ApiAnswer:
        script.now_s += float(request.path.partition("wait=")[2] or 0)
        return expectation("pending")

    script = Script([held_back] * 4)

    record = script.run(flows.wait_for_expectation(script.context, "exp_1", timeout_s=25))

    assert record.state == "pending"
    assert [r.path.partition("=")[2] for r in script.requests][:2] == ["10.0", "10.0"]
    assert 125 <= script.now_s < 127


def test_a_wait_without_patience_does_not_hammer_a_server_that_is_away() -> None:
    script = Script([LOST] * 1_000)
    hasty = replace(script.context, retry_s=0)

    with pytest.raises(UnavailableError):
        script.run(flows.wait_for_expectation(hasty, "exp_1", timeout_s=20))

    assert sum(script.slept) == pytest.approx(20, abs=0.1)
    assert len(script.requests) < 20


def test_a_server_that_ends_every_wait_at_once_is_not_hammered() -> None:
    script = Script([expectation("pending")] * 1000)

    script.run(flows.wait_for_expectation(script.context, "exp_1", timeout_s=60))

    assert len(script.requests) <= 20
    assert script.slept[:3] == [0.1, 0.2, 0.4]


@pytest.mark.parametrize("cut", [b"", LOST], ids=["ended", "lost"])
def test_nor_is_one_that_cuts_every_stream_and_wait(cut: Any) -> None:
    """A proxy that lets nothing stay open: the pauses grow, and streams are given up."""

    def serve(request: ApiRequest) -> ApiAnswer:
        return answer({}) if "/stream" in request.path else page()

    script = Script([serve] * 1000)
    script.stream = [cut] * 1000

    with pytest.raises(WaitTimeoutError):
        wait(script, timeout_s=60.0)

    assert script.slept[:6] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2]
    assert max(script.slept) == flows.PAUSE_S_MAX
    streams = [one for one in script.requests if "/stream" in one.path]
    assert len(streams) == flows.CUT_STREAMS_MAX
    assert len(script.requests) <= 40


def test_a_stream_that_is_cut_again_and_again_is_replaced_by_waits_that_are_held() -> None:
    def serve(request: ApiRequest) -> ApiAnswer:
        if "/stream" in request.path:
            return answer({})
        script.now_s += float(request.path.partition("wait=")[2] or 0)
        return page(message(7)) if script.now_s > 125 else page()

    script = Script([serve] * 100)
    script.stream = [b""] * 100

    assert wait(script, timeout_s=60.0).seq == 7
    assert len(script.requests) <= 14


def test_a_stream_that_lives_is_opened_again_without_growing_pauses() -> None:
    """A proxy that ends streams after half a minute is no reason to give them up."""

    def serve(request: ApiRequest) -> ApiAnswer:
        return answer({}) if "/stream" in request.path else page()

    script = Script([serve] * 100)
    script.stream = [None, None, None, b""] * 5 + [events(message(3))]

    assert wait(script, timeout_s=600.0).seq == 3
    assert script.slept == [flows.PAUSE_S] * 5


def test_clients_that_were_cut_at_once_do_not_come_back_at_once() -> None:
    slept = []
    for chance in (0.0, 0.5, 1.0):
        script = Script([LOST] * 3 + [answer(SENT, 202)], chance=chance)
        send(script)
        slept.append(script.slept)

    assert slept == [
        pytest.approx([0.05, 0.1, 0.2]),
        pytest.approx([0.075, 0.15, 0.3]),
        pytest.approx([0.1, 0.2, 0.4]),
    ]


def test_a_server_that_hangs_is_asked_again_with_the_times_of_a_new_client() -> None:
    script = Script([HANGS])
    context = replace(script.context, timeout_s=flows.TIMEOUT_S, retry_s=flows.RETRY_S)

    with pytest.raises(UnavailableError):
        script.run(calls.find_inbox(context, "inb_1"))

    assert len(script.requests) >= 3


@pytest.mark.parametrize("value", ["1", None, -1, float("nan"), True])
def test_a_time_that_is_no_number_of_seconds_is_refused(value: Any) -> None:
    script = Script([])
    wait = flows.wait_for_message(script.context, "inb_1", MessageMatch(), after=0, timeout_s=value)

    with pytest.raises(ConfigError, match="`timeout_s` must be a number of seconds"):
        script.run(wait)
    with pytest.raises(ConfigError, match="`retry_s` must be a number of seconds"):
        replace(script.context, retry_s=value)
