"""A fake of a provider's API: real HTTP on loopback, with a script and a log.

It knows the provider's documents, not our code: it reads a call as the provider would, refuses what
the provider refuses, and keeps what it accepted. A script says what goes wrong, call by call.
"""

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, ClassVar, Self

import orjson

from mailonce.core.events.event import EventType
from mailonce.errors import ConfigError
from mailonce.testing.fakes.http_server import Ending, FakeHttpServer, FakeReply, FakeRequest
from mailonce.testing.fakes.reading import CallRefusedError
from mailonce.testing.fakes.records import (
    FakeAct,
    FakeCall,
    FakeMail,
    FakeMessage,
    FakeStep,
    check_recipient,
)
from mailonce.testing.sign import number_of
from mailonce.testing.simulator import Happening, Post, Simulator
from mailonce.testing.simulators import make_simulator

log = logging.getLogger("mailonce.testing.fakes")


@dataclass(frozen=True, slots=True)
class _KnownKey:
    """An idempotency key: the call that came first, and its messages once it has them."""

    body: bytes
    messages: tuple[FakeMessage, ...]
    since_s: float


class Fake(ABC):
    """The API of one provider.

    `calls` has every call that came, `messages` every mail that was accepted. `steps` is what
    happens to the next calls; when it is empty, they are accepted. Where `lists_late`, a lookup
    shows a message only after `list_all`. `key_window_s` is how long idempotency keys are known;
    None: until `expire_keys`.
    """

    name: ClassVar[str]
    # The calls that it knows: method and path, as in the provider's documents.
    known_calls: ClassVar[tuple[str, ...]]
    # The status of a refusal for a field that is missing or wrong.
    invalid_status: ClassVar[int] = 422
    # Whether each recipient of a call has an id; else all share one.
    has_id_per_recipient: ClassVar[bool] = False
    # What a sender of it needs beside its endpoint and its secret.
    settings: ClassVar[Mapping[str, Any]] = {}
    busy_status: ClassVar[int] = 429

    def __init__(self, *, seed: str | None = None, port: int = 0) -> None:
        self.calls: list[FakeCall] = []
        self.messages: list[FakeMessage] = []
        self.steps: deque[FakeStep] = deque()
        self._steps_to: dict[str, deque[FakeStep]] = {}
        self.lists_late = False
        self.key_window_s: float | None = None
        self.secret = "fake-secret"  # noqa: S105 - nobody's
        self.simulator: Simulator = make_simulator(self.name, seed)
        self._server = FakeHttpServer(self._answer)
        self._server.port = port
        self._loop: asyncio.AbstractEventLoop | None = None
        self._released = asyncio.Event()
        self._keys: dict[str, _KnownKey] = {}
        # How many messages had an id, with those that were tests.
        self._ids_given = 0

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        await self._server.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._server.close()

    @property
    def url(self) -> str:
        """Where it listens.

        Raises: ConfigError before it does, unless it was given a port.
        """
        if not self._server.port:
            raise ConfigError(
                "this fake does not listen yet, so that it has no url; "
                "write `async with make_fake(...) as fake:`, and use it inside"
            )
        return f"http://127.0.0.1:{self._server.port}"

    @property
    def sends(self) -> list[FakeCall]:
        """The calls that were to send something, and had what the provider needs for it."""
        calls = (call for call in self.calls if call.step is not None)
        return [call for call in calls if not call.mails[0].is_test]

    def sender_settings(self) -> dict[str, Any]:
        """Give the settings of a sender that uses this fake."""
        return {"provider": self.name, "endpoint": self.url, "secret": self.secret, **self.settings}

    def script(self, *acts: FakeAct | FakeStep, to: str | None = None) -> None:
        """Say what happens to the next calls, in their order; or to those with this recipient.

        Raises: ConfigError where a step is of another kind; then none of them is taken.
        """
        check_recipient(to)
        given = [act if isinstance(act, FakeStep) else FakeStep(act) for act in acts]
        steps = self.steps if to is None else self._steps_to.setdefault(to, deque())
        steps += given

    def expire_keys(self) -> None:
        """Forget all idempotency keys, as the provider does after its window."""
        self._keys.clear()

    def release(self) -> None:
        """Answer the calls that wait for it; those that come later wait again.

        It may be called from another thread.
        """
        released, self._released = self._released, asyncio.Event()
        assert self._loop is not None, "it was not started"
        self._loop.call_soon_threadsafe(released.set)

    def list_all(self) -> None:
        """Let lookups show every message."""
        self.messages = [replace(message, is_listed=True) for message in self.messages]

    def webhooks(
        self,
        *,
        now_s: int,
        messages: Iterable[FakeMessage] | None = None,
        type_: EventType = EventType.DELIVERED,
        copies: int = 1,
    ) -> list[Post]:
        """Make the signed webhooks of messages, of all by default, so many of each.

        The test sends them, as late and as often as it likes. A copy is signed anew, as by a
        provider that tries again.
        """
        return [
            self.simulator.post(
                [
                    Happening(
                        f"{message.id}-{number_of(message.mail.recipient)}-{type_.value}",
                        type_,
                        message.id,
                        message.mail.recipient,
                        now_s,
                        self.details(message),
                    )
                ],
                now_s=now_s,
            )
            for message in (self.messages if messages is None else messages)
            for _ in range(copies)
        ]

    # What a provider's fake says.

    @abstractmethod
    def is_authorized(self, request: FakeRequest) -> bool:
        """Check the credentials of a call."""

    @abstractmethod
    def read(self, request: FakeRequest) -> Sequence[FakeMail] | None:
        """Read a call to send, as a mail for each recipient; None where it is another call.

        Raises: CallRefusedError where the provider refuses the call for what is in it.
        """

    @abstractmethod
    def accepted(self, messages: Sequence[FakeMessage]) -> FakeReply:
        """Answer that the mail of a call was accepted for all of its recipients."""

    @abstractmethod
    def refused(self, status: int, reason: str) -> FakeReply:
        """Answer that nothing was accepted."""

    @abstractmethod
    def details(self, message: FakeMessage) -> Mapping[str, Any]:
        """Give the fields of a webhook that bring back what the mail was sent with."""

    def unauthorized(self, request: FakeRequest) -> FakeReply:
        """Answer that the credentials of a call are missing or wrong."""
        del request
        return self.refused(401, "wrong credentials")

    def invalid(self, error: CallRefusedError) -> FakeReply:
        """Answer that a field is missing or wrong."""
        return self.refused(error.status or self.invalid_status, str(error))

    def accepted_in_part(self, messages: Sequence[FakeMessage]) -> FakeReply:
        """Answer that this mail was accepted and another refused; by default it does not."""
        return self.accepted(messages)

    def refused_in_success(self) -> FakeReply:
        """Refuse in an answer that looks like success; by default it does not."""
        return self.refused(422, "refused")

    def look_up(self, request: FakeRequest) -> FakeReply | None:
        """Answer a lookup; None where the call is none.

        Raises: CallRefusedError as `read`.
        """
        del request
        return None

    def known_key(self, messages: Sequence[FakeMessage], *, is_same: bool) -> FakeReply:
        """Answer a call whose key is known; without messages its first call is still running."""
        del is_same
        assert messages, f"{self.name} does not say that a call is running"
        return self.accepted(messages)

    def new_id(self, number: int, mail: FakeMail) -> str:
        """Make the id of the message of that number."""
        del mail
        id_ = f"{self.name}-message-{number}"
        return str(number_of(id_)) if self.simulator.numbers_messages else id_

    def listed(self) -> list[FakeMessage]:
        """Give the messages that lookups show."""
        return [message for message in self.messages if message.is_listed]

    # How a call is answered.

    async def _answer(self, request: FakeRequest) -> FakeReply:
        """Answer whatever comes: only what was scripted hangs or breaks the connection."""
        try:
            return await self._answer_call(request)
        except Exception as error:
            log.exception("the fake of %s failed at %s", self.name, request.call)
            fault = f"{type(error).__name__}: {error}"
            words = f"a fault of the fake itself, which nobody scripted, at {request.call}: {fault}"
            return json_reply({"error": words, "message": words}, 500)

    async def _answer_call(self, request: FakeRequest) -> FakeReply:
        self.calls.append(FakeCall(request, None))
        if not self.is_authorized(request):
            return self.unauthorized(request)
        try:
            mails = self.read(request)
            if mails is None:
                return self.look_up(request) or self._unknown(request)
        except CallRefusedError as error:
            return self.invalid(error)
        assert mails, "a call to send has a recipient"
        step = self._next_step(mails)
        self.calls[-1] = FakeCall(request, step, tuple(mails))
        return await self._act(step, mails, request.body)

    def _unknown(self, request: FakeRequest) -> FakeReply:
        known = ", ".join(self.known_calls)
        words = f"this fake of {self.name} does not know {request.call}; it knows {known}"
        return self.refused(404, words)

    def _next_step(self, mails: Sequence[FakeMail]) -> FakeStep:
        """Take the next step for any of the recipients, or else for all calls."""
        scripts = (self._steps_to.get(mail.recipient) for mail in mails)
        steps = next(filter(None, scripts), self.steps)
        return steps.popleft() if steps else FakeStep()

    def _known(self, key: str | None) -> _KnownKey | None:
        """Find a key that has not run out."""
        known = None if key is None else self._keys.get(key)
        if known is None or self.key_window_s is None:
            return known
        return known if time.monotonic() - known.since_s < self.key_window_s else None

    async def _act(self, step: FakeStep, mails: Sequence[FakeMail], body: bytes) -> FakeReply:
        """Do what was scripted; a key that is known stays so, and has its mail already."""
        key = None if mails[0].is_test else mails[0].key
        known = self._known(key)
        if key is not None and known is None:
            self._keys[key] = _KnownKey(body, (), time.monotonic())
        await asyncio.sleep(step.delay_s)
        if not step.act.startswith("accept"):
            if key is not None and known is None:
                self._keys.pop(key, None)
            return self._refused(step.act)
        if known is not None:
            reply = self.known_key(known.messages, is_same=known.body == body)
        else:
            reply = self._accept(step.act, mails, body)
        match step.act:
            case FakeAct.ACCEPT_AND_WAIT:
                await self._released.wait()
                return reply
            case FakeAct.ACCEPT_AND_HANG:
                return replace(reply, ending=Ending.HANGS)
            case FakeAct.ACCEPT_AND_BREAK:
                return replace(reply, ending=Ending.BREAKS)
            case FakeAct.ACCEPT_AND_CUT:
                return replace(reply, ending=Ending.CUT)
            case FakeAct.ACCEPT_AND_FAIL:
                return self.refused(500, "internal error")
            case _:
                return reply

    def _accept(self, act: FakeAct, mails: Sequence[FakeMail], body: bytes) -> FakeReply:
        messages = self._keep(mails, body)
        key = mails[0].key
        # A key that ran out meanwhile stays unknown, and a test has none.
        if key in self._keys and not mails[0].is_test:
            self._keys[key] = replace(self._keys[key], messages=messages)
        is_partial = act is FakeAct.ACCEPT_IN_PART
        return self.accepted_in_part(messages) if is_partial else self.accepted(messages)

    def _keep(self, mails: Sequence[FakeMail], body: bytes) -> tuple[FakeMessage, ...]:
        first = self._ids_given + 1
        self._ids_given += len(mails)
        messages = tuple(
            FakeMessage(
                id=self.new_id(first + number * self.has_id_per_recipient, mail),
                mail=mail,
                body=body,
                is_listed=not self.lists_late,
            )
            for number, mail in enumerate(mails)
        )
        if not mails[0].is_test:
            self.messages += messages
        return messages

    def _refused(self, act: FakeAct) -> FakeReply:
        match act:
            case FakeAct.HANG:
                return FakeReply(ending=Ending.HANGS)
            case FakeAct.BREAK:
                return FakeReply(ending=Ending.BREAKS)
            case FakeAct.FAIL:
                return self.refused(500, "internal error")
            case FakeAct.BUSY:
                reply = self.refused(self.busy_status, "too many requests")
                return replace(reply, headers={**reply.headers, "Retry-After": "1"})
            case FakeAct.REFUSE_IN_SUCCESS:
                return self.refused_in_success()
            case _:
                return self.refused(422, "refused")


def json_reply(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> FakeReply:
    return FakeReply(status, orjson.dumps(value), headers or {})
