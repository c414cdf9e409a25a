"""A fake of a provider's API: real HTTP on loopback, with a script and a log.

It knows the provider's documents, not our code: it reads a call as the provider would, refuses what
the provider refuses, and keeps what it accepted. A script says what goes wrong, call by call.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import TracebackType
from typing import Any, ClassVar, Self

import orjson

from mailonce.core.events.event import EventType
from mailonce.testing.fakes.http_server import Ending, FakeHttpServer, FakeReply, FakeRequest
from mailonce.testing.sign import number_of
from mailonce.testing.simulator import Happening, Post, Simulator
from mailonce.testing.simulators import make_simulator


class FakeAct(StrEnum):
    """What a fake does with one call to send."""

    ACCEPT = "accept"
    # It has the mail, and answers when it is told to: `Fake.release`.
    ACCEPT_AND_WAIT = "accept_and_wait"
    # It has the mail, and speaks as well of another recipient whom it refused.
    ACCEPT_IN_PART = "accept_in_part"
    # It has the mail, and the caller does not hear of it.
    ACCEPT_AND_HANG = "accept_and_hang"
    ACCEPT_AND_BREAK = "accept_and_break"
    ACCEPT_AND_CUT = "accept_and_cut"
    ACCEPT_AND_FAIL = "accept_and_fail"
    # It does not have the mail, and the caller cannot know.
    HANG = "hang"
    BREAK = "break"
    FAIL = "fail"
    # It does not have the mail, and says so.
    BUSY = "busy"
    REFUSE = "refuse"
    # An error in an answer that looks like success, where the provider has such.
    REFUSE_IN_SUCCESS = "refuse_in_success"


@dataclass(frozen=True, slots=True)
class FakeStep:
    """What happens to one call, after `delay_s`."""

    act: FakeAct = FakeAct.ACCEPT
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeMail:
    """A mail, as the provider reads it from a call."""

    recipient: str
    subject: str = ""
    # What the provider gives back in events and lookups: metadata, tags, headers.
    marks: Mapping[str, Any] = field(default_factory=dict)
    # The caller's idempotency key, where the provider knows one.
    key: str | None = None
    message_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeMessage:
    """A mail that the provider has accepted; `id` is the provider's own."""

    id: str
    mail: FakeMail
    body: bytes = field(repr=False)
    # Whether lookups show it yet.
    is_listed: bool = True


@dataclass(frozen=True, slots=True)
class _KnownKey:
    """An idempotency key: the call that came first, and its message once it has one."""

    body: bytes
    message: FakeMessage | None
    since_s: float


@dataclass(frozen=True, slots=True)
class FakeCall:
    """A call that came, the mail that it was to send, and what was done with it.

    A lookup has neither mail nor step.
    """

    request: FakeRequest
    step: FakeStep | None
    mail: FakeMail | None = None


class Fake(ABC):
    """The API of one provider.

    `calls` has every call that came, `messages` every mail that was accepted. `steps` is what
    happens to the next calls; when it is empty, they are accepted. Where `lists_late`, a lookup
    shows a message only after `list_all`. `key_window_s` is how long idempotency keys are known;
    None: until `expire_keys`.
    """

    name: ClassVar[str]
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
        return f"http://127.0.0.1:{self._server.port}"

    @property
    def sends(self) -> list[FakeCall]:
        """The calls that were to send something."""
        return [call for call in self.calls if call.step is not None]

    def sender_settings(self) -> dict[str, Any]:
        """Give the settings of a sender that uses this fake."""
        return {"provider": self.name, "endpoint": self.url, "secret": self.secret, **self.settings}

    def script(self, *acts: FakeAct | FakeStep, to: str | None = None) -> None:
        """Say what happens to the next calls, in their order; or to those for one recipient."""
        steps = self.steps if to is None else self._steps_to.setdefault(to, deque())
        steps += [act if isinstance(act, FakeStep) else FakeStep(act) for act in acts]

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
                        f"{message.id}-{type_.value}",
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
    def read(self, request: FakeRequest) -> FakeMail | None:
        """Read a call to send; None where it is another one."""

    @abstractmethod
    def accepted(self, message: FakeMessage) -> FakeReply:
        """Answer that the mail was accepted."""

    @abstractmethod
    def refused(self, status: int, reason: str) -> FakeReply:
        """Answer that nothing was accepted."""

    @abstractmethod
    def details(self, message: FakeMessage) -> Mapping[str, Any]:
        """Give the fields of a webhook that bring back what the mail was sent with."""

    def accepted_in_part(self, message: FakeMessage) -> FakeReply:
        """Answer that this mail was accepted and another refused; by default it does not."""
        return self.accepted(message)

    def refused_in_success(self) -> FakeReply:
        """Refuse in an answer that looks like success; by default it does not."""
        return self.refused(422, "refused")

    def look_up(self, request: FakeRequest) -> FakeReply | None:
        """Answer a lookup; None where the call is none."""
        del request
        return None

    def known_key(self, message: FakeMessage | None, *, is_same: bool) -> FakeReply:
        """Answer a call whose key is known; without a message its first call is still running."""
        del is_same
        assert message is not None, f"{self.name} does not say that a call is running"
        return self.accepted(message)

    def new_id(self, number: int) -> str:
        id_ = f"{self.name}-message-{number}"
        return str(number_of(id_)) if self.simulator.numbers_messages else id_

    def listed(self) -> list[FakeMessage]:
        """Give the messages that lookups show."""
        return [message for message in self.messages if message.is_listed]

    # How a call is answered.

    async def _answer(self, request: FakeRequest) -> FakeReply:
        is_authorized = self.is_authorized(request)
        mail = self.read(request) if is_authorized else None
        if mail is None:
            self.calls.append(FakeCall(request, None))
            if not is_authorized:
                return self.refused(401, "wrong credentials")
            return self.look_up(request) or self.refused(404, "no such call")
        steps = self._steps_to.get(mail.recipient) or self.steps
        step = steps.popleft() if steps else FakeStep()
        self.calls.append(FakeCall(request, step, mail))
        known = self._known(mail.key)
        if known is not None:
            return self.known_key(known.message, is_same=known.body == request.body)
        return await self._act(step, mail, request.body)

    def _known(self, key: str | None) -> _KnownKey | None:
        """Find a key that has not run out."""
        known = None if key is None else self._keys.get(key)
        if known is None or self.key_window_s is None:
            return known
        return known if time.monotonic() - known.since_s < self.key_window_s else None

    async def _act(self, step: FakeStep, mail: FakeMail, body: bytes) -> FakeReply:
        key = mail.key
        if key is not None:
            self._keys[key] = _KnownKey(body, None, time.monotonic())
        await asyncio.sleep(step.delay_s)
        if not step.act.startswith("accept"):
            if key is not None:
                self._keys.pop(key, None)
            return self._refused(step.act)
        message = FakeMessage(
            id=self.new_id(len(self.messages) + 1),
            mail=mail,
            body=body,
            is_listed=not self.lists_late,
        )
        self.messages.append(message)
        if key is not None:
            self._keys[key] = replace(self._keys[key], message=message)
        reply = self.accepted(message)
        match step.act:
            case FakeAct.ACCEPT_AND_WAIT:
                await self._released.wait()
                return reply
            case FakeAct.ACCEPT_IN_PART:
                return self.accepted_in_part(message)
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


def json_body(request: FakeRequest) -> dict[str, Any]:
    """Read a body that is an object of JSON; anything else is an empty one."""
    try:
        value = orjson.loads(request.body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def bare(address: str) -> str:
    """Take the address out of `Name <address>`."""
    return address.rpartition("<")[2].rstrip(">").strip()
