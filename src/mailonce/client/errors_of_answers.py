"""Problems of the API as exceptions: those that the server raised, by the word of their type."""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from mailonce import errors
from mailonce.errors import GoneError, MailonceError, RefusedError, UnavailableError, VerifyError

# The members that every problem has.
_PROBLEM = frozenset({"type", "title", "status", "detail"})
# What a proxy answers in place of a server that it cannot reach.
_GATEWAY = frozenset({502, 503, 504})
_BY_STATUS = MappingProxyType(
    {
        401: VerifyError,
        403: errors.AccessError,
        404: errors.MissingError,
        409: errors.ClashError,
        410: GoneError,
        413: errors.SizeError,
        429: UnavailableError,
    }
)
_BY_CODE: Mapping[str, type[MailonceError]] = MappingProxyType(
    {
        kind.code: kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, MailonceError) and kind is not MailonceError
    }
)


class WaitTimeoutError(UnavailableError, TimeoutError):
    """What was waited for did not come in time."""

    code = "timeout"


def error_of(status: int, content_type: str, body: bytes, *, url: str) -> MailonceError:
    """Turn an answer that is no success into the error that it was."""
    problem = _problem_in(content_type, body)
    if problem is None and status in _GATEWAY:
        return UnavailableError(
            f"{url} answered {status}; the server, or a proxy before it, is not available: "
            "see whether the server runs"
        )
    if problem is None:
        return by_status(status)(
            f"{url} answered {status}, not as mailonce does; correct the URL of the server"
        )
    word = str(problem.get("type", "")).rpartition(":")[2]
    error = _BY_CODE.get(word, by_status(status))(str(problem.get("detail", status)))
    # Kinds that stand in no table of ours are told apart by their word.
    error.code = word or error.code
    error.members = {name: problem[name] for name in problem if name not in _PROBLEM}
    return error


def by_status(status: int) -> type[MailonceError]:
    """Find the kind of error for a status that says nothing more."""
    return _BY_STATUS.get(status, UnavailableError if status >= 500 else RefusedError)


def _problem_in(content_type: str, body: bytes) -> dict[str, Any] | None:
    if not content_type.startswith("application/problem+json"):
        return None
    try:
        problem = json.loads(body)
    except ValueError:
        return None
    return problem if isinstance(problem, dict) else None
