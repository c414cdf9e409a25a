"""The steps of a flow: what it asks its driver to do, and what it gets for it."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

CLOSED = "this client is closed; make a new one, or use it within its `with`"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """A request to the API; `path` holds its query, and sending it twice does no harm."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """An answer; the names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


@dataclass(frozen=True, slots=True)
class Exchange:
    """Send a request and give its whole answer."""

    request: ApiRequest
    timeout_s: float


@dataclass(frozen=True, slots=True)
class OpenStream:
    """Send a request and give its answer; the body of a success stays open to be read."""

    request: ApiRequest
    timeout_s: float


@dataclass(frozen=True, slots=True)
class ReadStream:
    """Give what came on the open stream: None where nothing did, b"" where it has ended."""

    timeout_s: float


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait."""

    seconds: float


Step: TypeAlias = Exchange | OpenStream | ReadStream | Sleep
Flow: TypeAlias = Generator[Step, Any, T]


class LostConnectionError(Exception):
    """No whole answer came; whether the server did what it was asked to is unknown."""
