"""The gate in a Starlette app.

>>> from starlette.middleware import Middleware
>>> Middleware(GateMiddleware, gate=...)  # doctest: +SKIP
"""

from typing import Any

from starlette.requests import HTTPConnection

from mailonce.gate.adapters.asgi import GateMiddleware, passage_of
from mailonce.gate.async_gate import AsyncPassage

__all__ = ["GateMiddleware", "passage"]


def passage(request: HTTPConnection) -> AsyncPassage[Any]:
    """Give the passage of a request: `passage(request).tx` is the transaction to work in."""
    return passage_of(request.scope)
