"""The ways of a request and of a wait, as generators that yield what to do next.

A server that restarts, is full or does not answer costs a wait, no error: a request is sent again
under the same key, with growing pauses, until `retry_s` have passed. All requests of this client
may be repeated, so an answer that was lost is asked for again.

A wait listens to the inbox's stream first. Where nothing came for ten seconds, not even a sign of
life, it looks for itself; where the stream cannot be had, or was cut at once several times, it asks
with `wait`, which holds the answer back until there is mail. After whatever is cut at once it
pauses, each time longer. A message counts once, by its `seq`, whichever way it came.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from mailonce.client import requests
from mailonce.client.errors_of_answers import WaitTimeoutError, error_of
from mailonce.client.message_match import MessageMatch
from mailonce.client.records import (
    ExpectationRecord,
    InboxRecord,
    MessageList,
    MessageRecord,
    expectation_of,
    message_of,
)
from mailonce.client.server_events import ServerEventReader
from mailonce.client.steps import (
    ApiAnswer,
    ApiRequest,
    Exchange,
    Flow,
    LostConnectionError,
    OpenStream,
    ReadStream,
    Sleep,
)
from mailonce.errors import ConfigError, GoneError, MailonceError, UnavailableError

T = TypeVar("T")

# How long one exchange may take: less than a request is sent again for, so that a server which
# takes a request and then hangs is asked again, too.
TIMEOUT_S = 10.0
RETRY_S = 30.0
# How long mail is waited for.
WAIT_S = 60.0
# Nobody is wrong: the same request may succeed later.
LATER = frozenset({408, 425, 429, 502, 503, 504})
PAUSE_S = 0.1
PAUSE_S_MAX = 5.0
RETRY_AFTER_S_MAX = 30.0
# How much longer than a wait its last request may take.
GRACE_S = 2.0
# How long a stream may be silent before the inbox is read.
QUIET_S = 10.0
# A stream or wait that ends sooner, without a message, was cut: by a proxy, or a server that stops.
CUT_S = 1.0
# So many streams in a row that were cut, and none is opened any more.
CUT_STREAMS_MAX = 3
PENDING = "pending"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowContext:
    """What every flow knows: the server, its patience, and the time."""

    url: str
    # Of one exchange: how long nothing may come.
    timeout_s: float
    # Of a request: how long it is sent again.
    retry_s: float
    # Seconds that never go back.
    now: Callable[[], float]
    # A number from 0 to 1, so that not all clients of a server come back at once.
    chance: Callable[[], float]

    def __post_init__(self) -> None:
        demand_seconds("timeout_s", self.timeout_s)
        demand_seconds("retry_s", self.retry_s)

    def pause_s(self, attempt: int) -> float:
        """Say how long to pause after an attempt that failed, counted from 1."""
        longest_s = min(PAUSE_S_MAX, PAUSE_S * 2.0 ** min(attempt - 1, 10))
        return longest_s * (1 + self.chance()) / 2


def demand_seconds(name: str, value: object) -> None:
    """Refuse what is no number of seconds.

    Raises: ConfigError.
    """
    if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 0:
        raise ConfigError(f"`{name}` must be a number of seconds, it is {value!r}")


def ask(
    context: FlowContext, request: ApiRequest, *, wait_s: float = 0, until_s: float | None = None
) -> Flow[ApiAnswer]:
    """Send a request until it is answered for good; `wait_s` is what the server may hold it back.

    Within a wait, `until_s` is when that ends: until then it is sent again, and hardly longer.
    Raises: MailonceError as the server said, or UnavailableError where it could not be reached.
    """
    demand_seconds("wait_s", wait_s)
    last_s = context.now() + context.retry_s if until_s is None else until_s
    attempt = 0
    while True:
        attempt += 1
        pause_s, named_s = context.pause_s(attempt), 0.0
        timeout_s = context.timeout_s + wait_s
        if until_s is not None:
            timeout_s = min(timeout_s, max(0.0, until_s - context.now()) + GRACE_S)
        try:
            answer: ApiAnswer = yield Exchange(request, timeout_s)
        except LostConnectionError as lost:
            error: MailonceError = UnavailableError(
                f"no mailonce server answers at {context.url} ({lost}); start it with "
                "`mailonce serve`, or correct the URL"
            )
        else:
            if answer.is_success:
                return answer
            error = _error_of(context, answer)
            if answer.status not in LATER:
                raise error
            named_s = _retry_after_s(answer)
            pause_s = max(pause_s, named_s)
        left_s = last_s - context.now()
        if left_s <= 0 or (until_s is None and named_s > left_s):
            raise error
        # The end of the time is worth one more attempt.
        yield Sleep(min(pause_s, left_s))


def ask_json(
    context: FlowContext,
    request: ApiRequest,
    read: Callable[[Mapping[str, Any]], T],
    *,
    wait_s: float = 0,
    until_s: float | None = None,
) -> Flow[T]:
    """Send a request, and give what `read` makes of its answer.

    Raises: as `ask`, and UnavailableError where the answer cannot be read.
    """
    answer = yield from ask(context, request, wait_s=wait_s, until_s=until_s)
    return read_answer(context, answer, read)


def read_answer(
    context: FlowContext, answer: ApiAnswer, read: Callable[[Mapping[str, Any]], T]
) -> T:
    """Give what `read` makes of a success.

    It may come from a proxy, or be cut: then nobody knows what the server did.
    Raises: UnavailableError.
    """
    try:
        return read(json.loads(answer.body))
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise UnavailableError(
            f"{context.url} answered {answer.status}, but not as mailonce does; correct the URL of "
            "the server, or see what the proxy before it answers"
        ) from error


def read_messages(
    context: FlowContext,
    inbox: str,
    *,
    after: int,
    wait_s: float = 0,
    until_s: float | None = None,
    **query: Any,
) -> Flow[MessageList]:
    """Read the messages behind a number, or wait for one."""
    request = requests.get("inboxes", inbox, "messages", after=after, wait=wait_s or None, **query)
    return (yield from ask_json(context, request, _page_of, wait_s=wait_s, until_s=until_s))


def _page_of(page: Mapping[str, Any]) -> MessageList:
    copies = page.get("copies", {})
    return MessageList(
        messages=tuple(message_of(one, copies=copies.get(one["id"], 0)) for one in page["data"]),
        next=page["next"],
        unread=page.get("unread", 0),
        listening_since=page["listening_since"],
        refused=tuple(page["refused"]),
    )


def wait_for_message(
    context: FlowContext,
    inbox: InboxRecord | str,
    match: MessageMatch,
    *,
    after: int,
    timeout_s: float,
) -> Flow[MessageRecord]:
    """Wait for the first matching message behind a number.

    Raises: WaitTimeoutError, and UnavailableError where the server could not be asked at the end.
    """
    demand_seconds("timeout_s", timeout_s)
    until_s = context.now() + timeout_s
    search = _Search(context, requests.name_of(inbox), match, after, until_s)
    while True:
        message = yield from search.look()
        if message is None and context.now() < until_s:
            message = yield from search.listen()
        if message is not None:
            return message
        left_s = until_s - context.now()
        if left_s <= 0:
            shown = inbox if isinstance(inbox, str) else inbox.address
            raise WaitTimeoutError(
                f"no matching mail came to {shown} within {timeout_s:g} s; see its messages and "
                "`refused` for what came instead"
            )
        yield Sleep(min(search.pause_s(), left_s))


def wait_for_expectation(
    context: FlowContext, expectation: str, *, timeout_s: float
) -> Flow[ExpectationRecord]:
    """Wait while mail may still fulfil an expectation; at the end of the time, give it as it is.

    The server holds each answer back until something happens. One that restarts meanwhile is asked
    again for as long as the wait lasts. Raises: UnavailableError where it could not be asked.
    """
    demand_seconds("timeout_s", timeout_s)
    until_s = context.now() + timeout_s
    cuts = 0
    while True:
        left_s = max(0.0, until_s - context.now())
        wait_s = round(min(QUIET_S, left_s), 3)
        request = requests.get("expectations", expectation, wait=wait_s or None)
        record = yield from ask_json(
            context, request, expectation_of, wait_s=wait_s, until_s=until_s
        )
        now_s = context.now()
        # A server of before waits while it is pending alone, and does not tell.
        is_waiting = record.json.get("waiting", record.state == PENDING)
        if not is_waiting or now_s >= until_s:
            return record
        is_cut = until_s - left_s + wait_s > now_s
        cuts = cuts + 1 if is_cut else 0
        if is_cut:
            # It was not held back: the server is about to stop.
            yield Sleep(min(context.pause_s(cuts), until_s - now_s))


class _Search:
    """What a wait for a message has seen so far."""

    def __init__(
        self, context: FlowContext, inbox: str, match: MessageMatch, after: int, until_s: float
    ) -> None:
        self._context = context
        self._inbox = inbox
        self._match = match
        self._seen = after
        self._until_s = until_s
        self._streams = True
        self._cuts = 0

    def pause_s(self) -> float:
        """Say how long to pause before the next look."""
        return self._context.pause_s(max(1, self._cuts))

    def look(self, *, wait_s: float = 0) -> Flow[MessageRecord | None]:
        """Read what is there, page by page."""
        while True:
            try:
                page = yield from read_messages(
                    self._context,
                    self._inbox,
                    after=self._seen,
                    wait_s=wait_s,
                    until_s=self._until_s,
                )
            except GoneError as gone:
                if "next" not in gone.members:
                    raise
                # What was deleted meanwhile can no longer be waited for.
                self._seen = int(gone.members["next"])
                continue
            message = self._take(page.messages)
            self._seen = max(self._seen, page.next)
            if message is not None or not page.messages:
                return message

    def listen(self) -> Flow[MessageRecord | None]:
        """Wait until a message matches, or the stream or the time ends."""
        began_s, seen = self._context.now(), self._seen
        if self._streams and (yield from self._open()):
            message = yield from self._follow()
        else:
            left_s = self._until_s - self._context.now()
            if left_s <= 0:
                return None
            message = yield from self.look(wait_s=round(min(QUIET_S, left_s), 3))
        is_cut = self._seen == seen and self._context.now() - began_s < CUT_S
        self._cuts = self._cuts + 1 if is_cut else 0
        if self._cuts >= CUT_STREAMS_MAX:
            self._streams = False
        return message

    def _follow(self) -> Flow[MessageRecord | None]:
        """Follow the stream that is open."""
        events = ServerEventReader()
        while (left_s := self._until_s - self._context.now()) > 0:
            try:
                data = yield ReadStream(min(QUIET_S, left_s))
                new = () if data is None else events.feed(data)
            except LostConnectionError:
                return None
            if data is None:
                message = yield from self.look()
            elif data:
                message = self._take(
                    message_of(json.loads(event.data)) for event in new if event.name == "message"
                )
                self._lose(json.loads(event.data) for event in new if event.name == "lost")
            else:
                return None
            if message is not None:
                return message
        return None

    def _open(self) -> Flow[bool]:
        request = requests.get("inboxes", self._inbox, "stream", after=self._seen)
        try:
            left_s = max(0.0, self._until_s - self._context.now())
            timeout_s = min(self._context.timeout_s, left_s + GRACE_S)
            answer: ApiAnswer = yield OpenStream(request, timeout_s)
        except LostConnectionError:
            return False
        if not answer.is_success and answer.status not in LATER and answer.status != 410:
            # Whatever this server or the proxy before it has against streams, it can be asked.
            self._streams = False
        return answer.is_success

    def _take(self, messages: Iterable[MessageRecord]) -> MessageRecord | None:
        for message in messages:
            if message.seq > self._seen:
                self._seen = message.seq
                if self._match.matches(message):
                    return message
        return None

    def _lose(self, losses: Iterable[Mapping[str, Any]]) -> None:
        for lost in losses:
            self._seen = max(self._seen, int(lost.get("next", 0)))


def _error_of(context: FlowContext, answer: ApiAnswer) -> MailonceError:
    content_type = answer.headers.get("content-type", "")
    return error_of(answer.status, content_type, answer.body, url=context.url)


def _retry_after_s(answer: ApiAnswer) -> float:
    text = answer.headers.get("retry-after", "")
    return min(float(text), RETRY_AFTER_S_MAX) if text.isascii() and text.isdigit() else 0.0
