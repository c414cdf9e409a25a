"""Requests and responses as the gate sees them, without any framework."""

import json
from collections.abc import Awaitable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from inspect import isawaitable, iscoroutine
from typing import Any

from mailonce.errors import ConfigError

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request. A consumer of a queue leaves method and path empty."""

    headers: Headers = ()
    body: bytes = b""
    method: str = ""
    path: str = ""
    query: str = ""

    def __post_init__(self) -> None:
        """Take headers and body in the forms that frameworks give.

        Raises: ConfigError where they could not be compared.
        """
        object.__setattr__(self, "headers", _texts(self.headers))
        if type(self.body) is not bytes:
            object.__setattr__(self, "body", _bytes(self.body))

    def values(self, name: str) -> Iterator[str]:
        """Give every value of a header that is not blank, stripped."""
        name = name.lower()
        for known, value in self.headers:
            if known.lower() == name and value.strip():
                yield value.strip()


@dataclass(frozen=True, slots=True)
class Response:
    """A response: sent, and sent again to every copy."""

    status: int
    body: bytes = b""
    headers: Headers = ()

    def __post_init__(self) -> None:
        if type(self.headers) is not tuple:
            object.__setattr__(self, "headers", _pairs(self.headers))

    @classmethod
    def json(cls, status: int, value: Any, headers: Iterable[tuple[str, str]] = ()) -> "Response":
        """Make a response of a value.

        Raises: ConfigError where it is no JSON.
        """
        try:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            body = text.encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigError(
                f"`Response.json` was given {_named(value)} that is no JSON ({error}); give texts, "
                "numbers, booleans, None, and lists and dicts of them"
            ) from error
        return cls(status, body, (("content-type", "application/json"), *headers))

    def header(self, name: str) -> str | None:
        name = name.lower()
        return next((value for known, value in self.headers if known.lower() == name), None)


def checked(response: object) -> Response:
    """See that a handler gave a response that can be recorded.

    Raises: ConfigError that says what to return.
    """
    if iscoroutine(response):
        response.close()
        raise ConfigError(
            "your handler is async, and Gate does not await it; use AsyncGate with an async store"
        )
    if not isinstance(response, Response):
        raise ConfigError(
            f"your handler returned {_named(response)}; return `Response.json(201, {{…}})` or "
            "`Response(status, body)` of mailonce.gate"
        )
    if not isinstance(response.status, int) or not isinstance(response.body, bytes):
        raise ConfigError(
            f"your handler's Response has the status {_named(response.status)} and the body "
            f"{_named(response.body)}; give an int and bytes, or use `Response.json`"
        )
    return response


def demand_awaitable(made: Awaitable[Response]) -> Awaitable[Response]:
    """See that what a handler gave can be awaited.

    Raises: ConfigError.
    """
    if not isawaitable(made):
        raise ConfigError("your handler is not async; write `async def`, or use Gate")
    return made


def _named(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _bytes(body: object) -> bytes:
    if not isinstance(body, bytes | bytearray | memoryview):
        raise ConfigError(f"`body` is {_named(body)}; give the bytes of the request, as they came")
    return bytes(body)


def _texts(headers: object) -> Headers:
    """Take headers that are texts: a key of None would be the same for every request.

    Raises: ConfigError.
    """
    pairs = _split(headers)
    for name, value in pairs:
        if not isinstance(name, str):
            raise ConfigError(f"the name of a header is {_named(name)}; give a text")
        if not isinstance(value, str):
            raise ConfigError(
                f"header {name!r} is {_named(value)}; give a text, or leave the header out"
            )
    return pairs


def _pairs(headers: object) -> Headers:
    return tuple((str(name), str(value)) for name, value in _split(headers))


def _split(headers: object) -> tuple[tuple[Any, Any], ...]:
    """Take headers as a mapping or as any pairs.

    Raises: ConfigError where they are neither.
    """
    given = headers.items() if isinstance(headers, Mapping) else headers
    try:
        return tuple((name, value) for name, value in given)  # type: ignore[attr-defined]
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"`headers` is {_named(headers)}; give pairs of name and value, or a dict"
        ) from error
