"""Errors as answers: application/problem+json (RFC 9457), one table."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from mailonce.core.access import Scope
from mailonce.core.argument_error import ArgumentAccessError, ArgumentError
from mailonce.core.expectations.agent_view import agent_problem
from mailonce.errors import (
    AccessError,
    ClashError,
    ConfigError,
    GoneError,
    MailonceError,
    MissingError,
    ParseError,
    RefusedError,
    SizeError,
    UnavailableError,
    VerifyError,
)
from mailonce.telemetry import UNEXPECTED, log

CODES: dict[type[MailonceError], int] = {
    ParseError: 400,
    ConfigError: 400,
    VerifyError: 401,
    AccessError: 403,
    MissingError: 404,
    ClashError: 409,
    GoneError: 410,
    SizeError: 413,
    RefusedError: 400,
    UnavailableError: 503,
}
NO_MEMBERS: Mapping[str, int | str] = MappingProxyType({})
TITLES = {
    400: "Bad request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    408: "Request timeout",
    409: "Conflict",
    410: "Gone",
    413: "Content too large",
    429: "Too many requests",
    431: "Request header fields too large",
    500: "Internal error",
    503: "Service unavailable",
}


def problem_json(
    code: int, detail: str, *, kind: str = "error", members: Mapping[str, int | str] = NO_MEMBERS
) -> bytes:
    """Write an error as the body of an answer; `members` are further facts of this kind of it."""
    return orjson.dumps(
        {
            **members,
            "type": f"urn:mailonce:{kind}",
            "title": TITLES.get(code, "Error"),
            "status": code,
            # It may quote what no JSON can hold.
            "detail": detail.encode("utf-8", "replace").decode(),
        }
    )


def problem(
    code: int, detail: str, *, kind: str = "error", members: Mapping[str, int | str] = NO_MEMBERS
) -> Response:
    headers = {"Retry-After": "2"} if code == 503 else {}
    if code == 401:
        headers["WWW-Authenticate"] = "Bearer"
    body = problem_json(code, detail, kind=kind, members=members)
    return Response(body, code, headers, media_type="application/problem+json")


def code_of(error: MailonceError) -> int:
    """Find the status code of an error by its nearest class in the table."""
    return next(CODES[kind] for kind in type(error).__mro__ if kind in CODES)


def sentence_of(fault: Mapping[str, Any]) -> str:
    """Say what is wrong with a request that does not fit its description."""
    where = ".".join(str(part) for part in fault["loc"][1:]) or "the body"
    words = str(fault["msg"]).removeprefix("Value error, ")
    match fault["type"]:
        case "missing":
            return f"`{where}` is required; see /docs"
        case "extra_forbidden":
            return f"`{where}` is not known here; remove it, or see /docs for its name"
        case "json_invalid":
            return "the body is not valid JSON; correct it, see /docs"
        case _:
            return f"`{where}` is wrong: {words[:1].lower()}{words[1:]}; see /docs"


def install(app: FastAPI) -> None:
    """Let every error of the application leave as a problem."""

    @app.exception_handler(MailonceError)
    async def ours(request: Request, error: MailonceError) -> Response:
        code = code_of(error)
        if _is_agent(request):
            argument = (
                str(error) if isinstance(error, ArgumentError | ArgumentAccessError) else None
            )
            return _problem_for_agent(code, error.code, error.members, argument=argument)
        return problem(code, str(error), kind=error.code, members=error.members)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        sentence = sentence_of(error.errors()[0])
        if _is_agent(request):
            return _problem_for_agent(400, "parse", argument=sentence)
        return problem(400, sentence, kind="parse")

    @app.exception_handler(HTTPException)
    async def plain(request: Request, error: HTTPException) -> Response:
        answer = problem(error.status_code, f"{request.method} {request.url.path}: {error.detail}")
        for name, value in (error.headers or {}).items():
            answer.headers[name] = value
        if error.status_code == 405 and (methods := _methods_of(app, request)):
            answer.headers["Allow"] = ", ".join(sorted(methods))
        return answer

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        log.error(UNEXPECTED, where=request.url.path, error=type(error).__name__, exc_info=error)
        if _is_agent(request):
            return _problem_for_agent(500, "error")
        return problem(500, "an unexpected error was logged; tell whoever runs this server")


def _methods_of(app: FastAPI, request: Request) -> set[str]:
    """List what a path can be asked; the framework names the methods of its first route alone."""
    return {
        method
        for route in app.router.routes
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE
        for method in route.methods or ()
    }


def _is_agent(request: Request) -> bool:
    return getattr(request.state, "scope", None) is Scope.AGENT


def _problem_for_agent(
    code: int,
    kind: str,
    members: Mapping[str, int | str] = NO_MEMBERS,
    *,
    argument: str | None = None,
) -> Response:
    sentence, shown = agent_problem(kind, members, argument=argument)
    return problem(code, sentence, kind=kind, members=shown)
