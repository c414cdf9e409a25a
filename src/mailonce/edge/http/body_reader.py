"""In front of the API: a body is read only for callers with a key, and only plain JSON passes.

FastAPI reads and parses a body before it asks who sent it. How large a body may be is the
connection's business (`protocol`).
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.json_text import check_plain
from mailonce.edge.http.problems import code_of, problem
from mailonce.errors import MailonceError, MissingError, ParseError
from mailonce.send.unsubscribe import PATH
from mailonce.service import Service

# What is posted there is a mail, not JSON.
MAIL_PATH = r"/v1/inboxes/[^/?]+/messages(?=\?|$)"
_MAIL = re.compile(MAIL_PATH)
FORM, JSON = b"application/x-www-form-urlencoded", b"application/json"
SENDS_PATH = "/v1/sends"
# Where no key is asked for: the path itself is the proof.
OPEN_PATHS = (PATH,)
API_PATHS = ("/v1/", "/mcp")


async def pass_on(
    service: Service, api: ASGIApp, scope: Scope, receive: Receive, send: Send
) -> None:
    """Hand a request to the API, with its body read and looked at where it has one."""
    if not _has_body(scope):
        await api(scope, receive, send)
        return
    headers: dict[bytes, bytes] = dict(scope["headers"])
    try:
        if "mailonce.local" not in scope and not scope["path"].startswith(OPEN_PATHS):
            await service.manage.keys.caller_of(bearer_of(headers))
    except MailonceError as error:
        if scope["path"].startswith(API_PATHS):
            answer = problem(code_of(error), str(error), kind=error.code)
        else:
            answer = _stray(service, scope, headers)
        # The body is not read, so the connection cannot go on.
        answer.headers["connection"] = "close"
        await answer(scope, receive, send)
        return
    body = await read_body(receive)
    if body is None:
        return
    is_send = scope["path"] == SENDS_PATH and scope["method"] == "POST"
    # A send is read at once into records, since it may be large, and checked there.
    if not is_send and not _MAIL.fullmatch(scope["path"]):
        try:
            _check(body)
        except ParseError as error:
            await problem(400, str(error), kind=error.code)(scope, receive, send)
            return
        scope = _as_json(scope, headers)
    await api(scope, _replay(body, receive), send)


def _stray(service: Service, scope: Scope, headers: dict[bytes, bytes]) -> Response:
    """Refuse what is posted to no path of ours: most likely a webhook whose URL lacks `/in/`."""
    path: str = scope["path"]
    written = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers.items()}
    arrival = Arrival(
        method=scope["method"],
        headers=written,
        body=b"",
        now_ms=service.clock.now_ms(),
    )
    service.metrics.unknown_sources.inc()
    service.refusals.add_unknown(path.rpartition("/")[2], arrival, path=path)
    detail = f"nothing is posted to {path[:80]!r}; webhooks are posted to /in/SOURCE"
    return problem(404, f"{detail}, see `mailonce source list`", kind=MissingError.code)


def _has_body(scope: Scope) -> bool:
    headers = dict(scope["headers"])
    return headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers


def _as_json(scope: Scope, headers: dict[bytes, bytes]) -> Scope:
    """Take a body that is called a form for JSON, as `curl -d` sends it: no path takes a form."""
    if headers.get(b"content-type") != FORM:
        return scope
    named = [(name, JSON if name == b"content-type" else value) for name, value in scope["headers"]]
    return {**scope, "headers": named}


def bearer_of(headers: Mapping[bytes, bytes]) -> str | None:
    """Give the key of a request; None where it has none."""
    kind, _, secret = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    return secret.strip() if kind.lower() == "bearer" else None


async def read_body(receive: Receive) -> bytes | None:
    """Read the body; None where the sender hung up, or sent too much."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


def _check(body: bytes) -> None:
    """Refuse what no database and no reader of our answers could take.

    Raises: ParseError. What is no JSON at all is left to the API, which says where.
    """
    try:
        value: Any = json.loads(body)
    except RecursionError as error:
        raise ParseError("the body is nested too deep; use fewer levels") from error
    except ValueError:
        return
    check_plain(value)


def _replay(body: bytes, receive: Receive) -> Receive:
    is_given = False

    async def replayed() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed
