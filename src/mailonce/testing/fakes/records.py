"""What a fake is told to do, and what it keeps."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from mailonce.errors import ConfigError
from mailonce.testing.fakes.http_server import FakeRequest


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

    def __post_init__(self) -> None:
        check_step(self.act, self.delay_s, FakeAct)


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeMail:
    """A mail for one recipient, as the provider reads it from a call."""

    recipient: str
    subject: str = ""
    # In which field the recipient stood: to, cc or bcc.
    role: str = "to"
    # Which mail of the call it is, where a call can have several.
    place: int = 0
    # What the provider gives back in events and lookups: metadata, tags, headers.
    marks: Mapping[str, Any] = field(default_factory=dict)
    # The caller's idempotency key, where the provider knows one.
    key: str | None = None
    message_id: str = ""
    # Whether the call only tests, in the provider's sandbox mode: nothing is sent.
    is_test: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeMessage:
    """A mail that the provider has accepted for one recipient; `body` is that of the call.

    `id` is the one that the answer gave. Recipients of one call share it, unless the provider gives
    each its own.
    """

    id: str
    mail: FakeMail
    body: bytes = field(repr=False)
    # Whether lookups show it yet.
    is_listed: bool = True


@dataclass(frozen=True, slots=True)
class FakeCall:
    """A call that came, the mail that it was to send, and what was done with it.

    A lookup has neither mail nor step, nor has a call that the provider refuses by itself.
    """

    request: FakeRequest
    step: FakeStep | None
    # One for each recipient.
    mails: tuple[FakeMail, ...] = ()

    @property
    def mail(self) -> FakeMail | None:
        """The mail for the first recipient."""
        return self.mails[0] if self.mails else None


def check_step(act: object, delay_s: object, kind: type[StrEnum]) -> None:
    """See that a step was given an act of its own kind, and a delay.

    Raises: ConfigError.
    """
    if not isinstance(act, kind):
        raise ConfigError(f"a step is {act!r:.80}; {_advice(act, kind)}")
    if not isinstance(delay_s, int | float) or not 0 <= delay_s < float("inf"):
        raise ConfigError(f"`delay_s` is {delay_s!r:.80}; write seconds as a number, 0 or more")


def check_recipient(to: object) -> None:
    """See that a script is for one recipient, or for all.

    Raises: ConfigError.
    """
    if to is not None and (not isinstance(to, str) or "@" not in to):
        raise ConfigError(f'`to` is {to!r:.80}; write one address, such as to="ann@example.net"')


def _advice(act: object, kind: type[StrEnum]) -> str:
    name = kind.__name__
    if isinstance(act, list | tuple):
        return f"write the steps themselves, not in a list: script({name}.ACCEPT, {name}.…)"
    if isinstance(act, str) and str(act).upper() in kind.__members__:
        return f"write {name}.{str(act).upper()}"
    return f"write one of {name}, such as {name}.ACCEPT"
