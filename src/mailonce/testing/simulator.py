"""A simulator: a provider's sending side, with its words, keys and retry schedule."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from string import ascii_lowercase, digits
from typing import Any, ClassVar

from mailonce.core.events.event import EventType
from mailonce.testing.keys import SimulatorKeys
from mailonce.testing.sign import basic

HONEST_DOMAIN = "example.net"
# As long as the honest one, so that only a signature can tell.
FORGED_DOMAIN = "example.org"


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened to one message for one recipient at `example.net`.

    `id` is the provider's own id of the event. A bounce is a hard one.
    """

    id: str
    type: EventType
    message_id: str
    recipient: str
    occurred_s: int


@dataclass(frozen=True, slots=True)
class Post:
    """A request as a provider sends it; `path` and `query` are added to the URL that it has."""

    headers: dict[str, str]
    body: bytes
    method: str = "POST"
    path: str = ""
    query: str = ""


class Simulator(ABC):
    """A provider's sending side.

    The same `seed` makes the same keys, so that a source can be set up for them beforehand;
    without one they are random. `to` is the URL that the provider would be given: some
    sign it.
    """

    name: ClassVar[str]
    # Its words for the types of event that it has, in whatever shape the simulator likes.
    words: ClassVar[Mapping[EventType, Any]]
    # How many happenings one post can hold.
    batch_max: ClassVar[int] = 1
    # Whether its signature has a time that can be too old.
    signs_time: ClassVar[bool] = False
    # Whether a retry is signed anew; else it is the first attempt, byte for byte.
    resigns: ClassVar[bool] = False
    # How long it waits before each retry.
    retry_waits_s: ClassVar[tuple[int, ...]] = ()
    # Whether its message ids are numbers.
    numbers_messages: ClassVar[bool] = False

    def __init__(
        self, seed: str | None = None, *, to: str = "http://127.0.0.1:8100/in/main"
    ) -> None:
        self.keys = SimulatorKeys(seed, self.name)
        self.to = to

    @property
    def provider(self) -> str:
        """The provider that it plays; one that has two forms has two simulators."""
        return self.name

    @property
    def types(self) -> tuple[EventType, ...]:
        """The types of event that it can send."""
        return tuple(self.words)

    @property
    def certificates(self) -> Mapping[str, bytes]:
        """What a receiver fetches to check its signatures, by URL; mostly nothing."""
        return {}

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Give the settings of a source that trusts this simulator."""

    @abstractmethod
    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Make a post of these happenings, signed at `now_s`."""

    def stops(self, code: int) -> bool:
        """Say whether an answer of that code ends the retries."""
        return is_success(code)

    def forge(self, post: Post) -> Post:
        """Change a post as someone without the keys would."""
        return with_other_recipients(post)

    def damage(self, post: Post, rng: Random) -> Post:
        """Change one letter or digit of the body, as a bad line would."""
        if not post.body:
            return replace(post, query=damaged(post.query, rng))
        return replace(post, body=damaged(post.body.decode(), rng).encode())


class UnsignedSimulator(Simulator):
    """A provider that signs nothing: user and password in the URL that it was given prove it."""

    def settings(self) -> dict[str, Any]:
        """Give user and password."""
        return {"provider": self.provider, "basic": self._user_and_password()}

    def forge(self, post: Post) -> Post:
        """Guess a password."""
        guess = {**post.headers, "Authorization": basic("mail:guess")}
        return replace(with_other_recipients(post), headers=guess)

    def _headers(self, content_type: str = "application/json") -> dict[str, str]:
        return {"Content-Type": content_type, "Authorization": basic(self._user_and_password())}

    def _user_and_password(self) -> str:
        return f"mail:{self.keys.text()}"


def is_success(code: int) -> bool:
    """Say whether a code is a success."""
    return 200 <= code < 300


def is_final(code: int, *, again: frozenset[int] = frozenset({408, 429})) -> bool:
    """Say whether a code is a success, or a 4xx that is not in `again`."""
    return is_success(code) or (400 <= code < 500 and code not in again)


def waits_s(*, minutes: Iterable[int] = (), hours: Iterable[int] = ()) -> tuple[int, ...]:
    """Write a schedule as providers publish theirs."""
    return (*(minute * 60 for minute in minutes), *(hour * 3600 for hour in hours))


def with_other_recipients(post: Post) -> Post:
    """Move every recipient to another domain."""
    return replace(
        post,
        body=post.body.replace(HONEST_DOMAIN.encode(), FORGED_DOMAIN.encode()),
        query=post.query.replace(HONEST_DOMAIN, FORGED_DOMAIN),
    )


def damaged(text: str, rng: Random, *, start: int = 0, end: int | None = None) -> str:
    """Change one letter or digit between `start` and `end` into another of its kind."""
    stop = len(text) if end is None else end
    places = [
        place for place in range(start, stop) if text[place].isascii() and text[place].isalnum()
    ]
    place = rng.choice(places)
    old = text[place].lower()
    kind = digits if old in digits else ascii_lowercase
    return text[:place] + rng.choice(kind.replace(old, "")) + text[place + 1 :]
