"""A simulator: a provider's sending side, with its words, keys and retry schedule."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from string import ascii_lowercase, digits
from typing import Any, ClassVar, NamedTuple, Protocol

import orjson

from mailonce.core.arrivals.mail_fetch import FetchAnswer
from mailonce.core.events.event import EventType
from mailonce.testing.keys import SimulatorKeys
from mailonce.testing.sign import basic, hmac_base64

HONEST_DOMAIN = "example.net"
# As long as the honest one, so that only a signature can tell.
FORGED_DOMAIN = "example.org"

Words = Mapping[EventType, Any]
SUCCESS = frozenset(range(200, 300))
SUCCESS_OR_GONE = SUCCESS | {410}
# What ends the retries of a provider that promises no more.
OK_ALONE = frozenset({200})


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened to one message for one recipient at `example.net`.

    `id` is the provider's own id of the event. A bounce is a hard one. `details` are further fields
    of the message in the provider's words, such as the metadata that it was sent with.
    """

    id: str
    type: EventType
    message_id: str
    recipient: str
    occurred_s: int
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Post:
    """A request as a provider sends it; `path` and `query` are added to the URL that it has."""

    headers: dict[str, str]
    body: bytes
    method: str = "POST"
    path: str = ""
    query: str = ""


class Draft(NamedTuple):
    """What a post will say, before it is signed."""

    happenings: Sequence[Happening]
    body: bytes
    now_s: int


def waits_s(*, minutes: Iterable[int] = (), hours: Iterable[int] = ()) -> tuple[int, ...]:
    """Write a schedule as providers publish theirs."""
    return (*(minute * 60 for minute in minutes), *(hour * 3600 for hour in hours))


def final_codes(*, again: Collection[int] = (408, 429)) -> frozenset[int]:
    """Give the codes of success, and each 4xx that is not in `again`."""
    return (SUCCESS | frozenset(range(400, 500))).difference(again)


class PostingSide(Protocol):
    """What makes the posts of a plan, and knows when and for how long they are tried again."""

    @property
    def to(self) -> str: ...
    @property
    def resigns(self) -> bool: ...
    @property
    def retry_waits_s(self) -> tuple[int, ...]: ...
    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post: ...
    def damage(self, post: Post, rng: Random) -> Post: ...
    def stops(self, code: int) -> bool: ...


class Simulator(ABC):
    """A provider's sending side.

    The same `seed` makes the same keys, so that a source can be set up for them beforehand;
    without one they are random. `to` is the URL that the provider would be given: some
    sign it.
    """

    name: ClassVar[str]
    # Its words for the types of event that it has, in whatever shape the simulator likes.
    words: ClassVar[Words]
    content_type: ClassVar[str] = "application/json"
    # How many happenings one post can hold.
    batch_max: ClassVar[int] = 1
    # Whether its signature has a time that can be too old.
    signs_time: ClassVar[bool] = False
    # Whether a retry is signed anew; else it is the first attempt, byte for byte.
    resigns: ClassVar[bool] = False
    # How long it waits before each retry, and the codes of an answer that end them.
    retry_waits_s: ClassVar[tuple[int, ...]] = ()
    final: ClassVar[Collection[int]] = SUCCESS
    # Whether its message ids are numbers.
    numbers_messages: ClassVar[bool] = False

    def __init__(
        self, seed: str | None = None, *, to: str = "http://127.0.0.1:8100/in/main"
    ) -> None:
        self.keys = SimulatorKeys(seed, self.name)
        self.to = to
        # What its API answers, by URL, to a server that fetches mail which it was told of.
        self.answers: dict[str, FetchAnswer] = {}

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

    @property
    def secret(self) -> str:
        """What it signs with, as its settings page shows it."""
        return self.keys.text()

    def settings(self) -> dict[str, Any]:
        """Give the settings of a source that trusts this simulator."""
        return {"provider": self.provider, "secret": self.secret}

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Make a post of these happenings, signed at `now_s`."""
        body = self.body(happenings)
        proof = self.proof(Draft(happenings, body, now_s))
        return Post({"Content-Type": self.content_type, **proof}, body)

    def body(self, happenings: Sequence[Happening]) -> bytes:
        """Write the body: an array, or one event where a post holds no more."""
        events = [self.event(one) for one in happenings]
        if self.batch_max > 1:
            return orjson.dumps(events)
        (event,) = events
        return orjson.dumps(event)

    @abstractmethod
    def event(self, one: Happening) -> dict[str, Any]:
        """Write one happening in the provider's words."""

    def proof(self, draft: Draft) -> dict[str, str]:
        """Give the headers that prove the sender; none where the body has the proof."""
        del draft
        return {}

    def stops(self, code: int) -> bool:
        """Say whether an answer of that code ends the retries."""
        return code in self.final

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

    @property
    def secret(self) -> str:
        """User and password."""
        return f"mail:{self.keys.text()}"

    def settings(self) -> dict[str, Any]:
        return {"provider": self.provider, "basic": self.secret}

    def proof(self, draft: Draft) -> dict[str, str]:
        """Log in; nothing of the draft is signed."""
        del draft
        return {"Authorization": basic(self.secret)}

    def forge(self, post: Post) -> Post:
        """Guess a password."""
        guess = {**post.headers, "Authorization": basic("mail:guess")}
        return replace(with_other_recipients(post), headers=guess)


class StandardSimulator(Simulator):
    """A sender that follows Standard Webhooks: each attempt has a time and a signature of its own.

    The id of the headers is the event's, and the same on all attempts.
    """

    signs_time = True
    resigns = True
    # The example of the specification.
    retry_waits_s = (5, *waits_s(minutes=(5, 30), hours=(2, 5, 10, 14, 20, 24)))
    # What the names of its headers begin with.
    family: ClassVar[str] = "webhook-"

    @property
    def secret(self) -> str:
        """The key, as the specification writes it."""
        return f"whsec_{self.keys.base64()}"

    def proof(self, draft: Draft) -> dict[str, str]:
        """Sign id, time and body."""
        id_ = self.webhook_id(draft.happenings[0])
        signed = f"{id_}.{draft.now_s}.".encode() + draft.body
        return {
            f"{self.family}id": id_,
            f"{self.family}timestamp": str(draft.now_s),
            f"{self.family}signature": f"v1,{hmac_base64(self.keys.bytes(), signed)}",
        }

    def webhook_id(self, one: Happening) -> str:
        return f"msg_{one.id}"


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
