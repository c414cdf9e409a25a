"""Requests and responses as the gate sees them, without any framework."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request. A consumer of a queue leaves method and path empty."""

    headers: Headers = ()
    body: bytes = b""
    method: str = ""
    path: str = ""
    query: str = ""

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

    @classmethod
    def json(cls, status: int, value: Any, headers: Iterable[tuple[str, str]] = ()) -> "Response":
        body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        return cls(status, body, (("content-type", "application/json"), *headers))

    def header(self, name: str) -> str | None:
        name = name.lower()
        return next((value for known, value in self.headers if known.lower() == name), None)
