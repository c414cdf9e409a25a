"""The door for sends: `POST /v1/sends` without the API's router in between.

One mail is one request, and hundreds may come in a second. The API's way costs more than all the
rest: it matches the path against every route, and solves what each depends on. Here the body is
read into records and submitted; whatever is not plain (no key, a key that may not send, a query)
goes the API's way, which has the words for it.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from http import HTTPStatus
from typing import Any

import orjson
from msgspec import Struct
from starlette.types import ASGIApp, Receive, Scope, Send

from mailonce.core.access import SENDS, WRITES, Caller, demand
from mailonce.core.access import Scope as KeyScope
from mailonce.core.sends.send_request import SendRequest
from mailonce.edge.http.body_reader import bearer_of, pass_on, read_body
from mailonce.edge.http.problems import code_of, problem_json
from mailonce.edge.http.send_body import read_send, request_of
from mailonce.errors import MailonceError, ParseError, VerifyError
from mailonce.send.submit import SubmittedSend
from mailonce.service import Service
from mailonce.telemetry import UNEXPECTED, log
from mailonce.views.sends import send_json

PATH = "/v1/sends"
KEY_NAMES = ("idempotency-key", "x-idempotency-key")
KEY_HEADERS = tuple(name.encode() for name in KEY_NAMES)
WORKSPACE = b"mailonce-workspace"
REPLAYED = (b"idempotent-replayed", b"true")
ACCEPTED = 202
_WRITTEN = b"HTTP/1.1 202 Accepted\r\ncontent-type: application/json\r\ncontent-length: "
_WRITTEN_REPLAYED = _WRITTEN.replace(b"content-type", b"idempotent-replayed: true\r\ncontent-type")
UNEXPECTED_WORDS = "an unexpected error was logged; tell whoever runs this server"


def is_submission(scope: Scope) -> bool:
    """Say whether a request is one to send."""
    return bool(scope["path"] == PATH and scope["method"] == "POST")


class SubmissionAnswer(Struct, frozen=True, gc=False):
    """What a request to send is answered."""

    code: int
    content: bytes
    is_replayed: bool = False

    def written(self) -> bytes:
        """Write it whole, for a connection that stays open."""
        if self.code == ACCEPTED:
            head = _WRITTEN_REPLAYED if self.is_replayed else _WRITTEN
        else:
            later = b"retry-after: 2\r\n" if self.code == 503 else b""
            line = f"HTTP/1.1 {self.code} {HTTPStatus(self.code).phrase}\r\n".encode()
            head = b"%scontent-type: application/problem+json\r\n%scontent-length: " % (line, later)
        return b"%s%d\r\n\r\n%s" % (head, len(self.content), self.content)

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Give the headers as ASGI has them."""
        is_problem = self.code != ACCEPTED
        kind = b"application/problem+json" if is_problem else b"application/json"
        headers = [(b"content-type", kind), (b"content-length", b"%d" % len(self.content))]
        if self.is_replayed:
            headers.append(REPLAYED)
        if self.code == 503:
            headers.append((b"retry-after", b"2"))
        return headers


async def take(service: Service, api: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Take a request to send, and answer once it is durable."""
    headers: dict[bytes, bytes] = dict(scope["headers"])
    try:
        caller = await _caller(service, scope, headers)
    except MailonceError:
        caller = None
    if caller is None or caller.scope not in SENDS or scope["query_string"]:
        await pass_on(service, api, scope, receive, send)
        return
    body = await read_body(receive)
    if body is None:
        return
    made = await answer(service, caller, body, keys_of(scope["headers"]))
    await send({"type": "http.response.start", "status": made.code, "headers": made.headers()})
    await send({"type": "http.response.body", "body": made.content})


async def answer(
    service: Service, caller: Caller, body: bytes, keys: AbstractSet[str]
) -> SubmissionAnswer:
    """Submit what a body asks for; whatever goes wrong is an answer, too."""
    try:
        return await submit(service, caller, body, keys)
    except Exception as error:  # noqa: BLE001 - as any other request of the API
        return trouble(error)


async def submit(
    service: Service, caller: Caller, body: bytes, keys: AbstractSet[str]
) -> SubmissionAnswer:
    """Submit what a body asks for, and give the answer once it is durable.

    Raises: RefusedError with the field and its fix, UnavailableError.
    """
    wanted, submissions = read(caller, body, keys), service.sends.submissions
    submitted = await submissions.submit(caller.workspace, wanted.request, by=caller.key)
    return answer_of(service, submitted, is_list=wanted.is_list)


class Submission(Struct, frozen=True):
    """What a body asks for; `is_list`: the answer is one of all its recipients."""

    request: SendRequest
    is_list: bool


def read(caller: Caller, body: bytes, keys: AbstractSet[str]) -> Submission:
    """Read what a body asks for, under the key of its headers, if there is one.

    Raises: RefusedError with the field and its fix.
    """
    new = read_send(body)
    if len(keys) > 1:
        raise ParseError(
            "the request has several keys (`Idempotency-Key`, `X-Idempotency-Key`); send one"
        )
    if new.ignore_suppressions:
        demand(caller, WRITES)
    return Submission(request_of(new, next(iter(keys), None)), isinstance(new.to, list))


def answer_of(
    service: Service, submitted: Sequence[SubmittedSend], *, is_list: bool
) -> SubmissionAnswer:
    """Show sends as they stand."""
    senders = service.snapshot.senders
    shown = [send_json(one.send, senders) for one in submitted]
    content: Any = {"data": shown} if is_list else shown[0]
    is_replayed = all(one.is_replayed for one in submitted)
    return SubmissionAnswer(ACCEPTED, orjson.dumps(content), is_replayed)


def trouble(error: Exception) -> SubmissionAnswer:
    """Say what kept a request from being submitted."""
    if isinstance(error, MailonceError):
        code = code_of(error)
        words = problem_json(code, str(error), kind=error.code, members=error.members)
        return SubmissionAnswer(code, words)
    log.error(UNEXPECTED, where=PATH, error=type(error).__name__, exc_info=error)
    return SubmissionAnswer(500, problem_json(500, UNEXPECTED_WORDS))


def keys_of(headers: Iterable[tuple[bytes, bytes]]) -> set[str]:
    """Read the keys of a request: two that differ would leave it to chance which one counts."""
    return {value.decode("latin-1") for name, value in headers if name.lower() in KEY_HEADERS}


async def _caller(service: Service, scope: Scope, headers: Mapping[bytes, bytes]) -> Caller:
    """Authenticate the caller; the admin may name another workspace.

    Raises: VerifyError, and what else keeps the caller from acting there.
    """
    named = headers.get(WORKSPACE)
    workspace = None if named is None else named.decode("latin-1")
    if "mailonce.local" in scope:
        local = Caller("default", KeyScope.ADMIN)
        return local if workspace is None else await service.manage.keys.acting_in(local, workspace)
    secret = bearer_of(headers)
    if secret is None:
        raise VerifyError("there is no key")
    return await service.manage.keys.caller_of(secret, workspace)
