"""Django: a decorator for views; the ORM's changes and the recorded response commit together."""

import warnings
from collections.abc import Callable
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, Concatenate, ParamSpec

from django.apps import apps
from django.core.exceptions import BadRequest, PermissionDenied, SuspiciousOperation
from django.core.handlers.exception import response_for_exception
from django.db import connections, transaction
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.multipartparser import MultiPartParserError
from django.http.response import HttpResponseBase

from mailonce.errors import ConfigError
from mailonce.gate.adapters.wsgi import concluded, demand_blocking_gate, held
from mailonce.gate.gate import Gate, Passage
from mailonce.gate.rules.answer import Answer, TooLarge
from mailonce.gate.rules.http import Request, Response
from mailonce.gate.stores.django import DjangoStore

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, P], HttpResponseBase]

APP = "mailonce.gate.django"
NO_APP = (
    f"{APP!r} is not in INSTALLED_APPS, so `manage.py migrate` does not make the gate's tables; "
    "add it, or make them with mailonce.gate.schema"
)

# What Django itself turns into a 4xx: such an answer counts like one that the view returns.
_REFUSALS = (BadRequest, Http404, MultiPartParserError, PermissionDenied, SuspiciousOperation)


def gated(gate: Gate[Any]) -> Callable[[View[P]], View[P]]:
    """Put `gate` before a view; `passage(request)` is then the hold on its key.

    The gate owns the transaction, so that ATOMIC_REQUESTS does not apply to the view. A sender of
    webhooks has no CSRF token: decorate with `csrf_exempt`, and give the policy a `verify`.

        @csrf_exempt
        @gated(gate)
        def receive(request): ...

    Raises: ConfigError for an async view, because Django's transactions do not cross an await.
    """
    demand_blocking_gate(gate)
    store = gate.store
    if not isinstance(store, DjangoStore):
        raise ConfigError("a Django view needs a gate over DjangoStore")
    if apps.ready and not apps.is_installed(APP):
        # `manage.py check` imports the views, and shows it.
        warnings.warn(NO_APP, stacklevel=2)

    def decorate(view: View[P]) -> View[P]:
        if iscoroutinefunction(view):
            raise ConfigError("the gate needs a sync view; Django runs it in a thread under ASGI")

        @wraps(view)
        def through(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            if request.method not in gate.rules.policy.methods:
                return view(request, *args, **kwargs)
            got = _enter(gate, request)
            if isinstance(got, Answer):
                return _written(got.response)
            request.passage = got  # type: ignore[attr-defined]
            return _finished(gate, got, request, lambda: view(request, *args, **kwargs))

        return transaction.non_atomic_requests(using=store.using)(through)

    return decorate


def passage(request: HttpRequest) -> Passage[Any]:
    """Give the hold on the key of a request; `request.passage` is the same, without a type.

    Raises: ConfigError where the request did not come through a gate.
    """
    hold: Passage[Any] | None = getattr(request, "passage", None)
    if hold is None:
        raise ConfigError(
            f"{request.method} {request.path} did not come through a gate; decorate its view with "
            "`@gated(gate)`, whose policy has the method"
        )
    return hold


def _enter(gate: Gate[Any], request: HttpRequest) -> "Passage[Any] | Answer":
    # Looked at before the body is read, which Django would refuse as a whole.
    if _length(request) > gate.rules.policy.body_bytes_max:
        return gate.rules.answer(TooLarge())
    return gate.enter(
        Request(
            headers=tuple(request.headers.items()),
            body=request.body,
            method=request.method or "",
            path=request.path,
            query=str(request.META.get("QUERY_STRING") or ""),
        )
    )


def _length(request: HttpRequest) -> int:
    text = str(request.META.get("CONTENT_LENGTH") or "")
    return int(text) if text.isdecimal() else 0


def _finished(
    gate: Gate[Any],
    passage: Passage[Any],
    request: HttpRequest,
    view: Callable[[], HttpResponseBase],
) -> HttpResponseBase:
    theirs: HttpResponseBase | None = None

    def work() -> Response:
        nonlocal theirs
        try:
            theirs = view()
        except _REFUSALS as refusal:
            theirs = response_for_exception(request, refusal)
        return _read(theirs, gate.rules.policy.held_bytes_max)

    # Django keeps a connection per thread: what the renewals opened is closed with their thread.
    ours, response = concluded(gate, passage, work, ending=connections.close_all)
    if response is ours and isinstance(theirs, HttpResponse):
        return theirs
    return _written(response)


def _read(theirs: HttpResponseBase, bytes_max: int) -> Response:
    """Take what can be recorded; what would be rendered later is rendered in the transaction."""
    render = getattr(theirs, "render", None)
    if render is not None and not getattr(theirs, "is_rendered", True):
        render()
    if isinstance(theirs, StreamingHttpResponse):
        body = held(iter(theirs), bytes_max)
    else:
        if not isinstance(theirs, HttpResponse):
            raise ConfigError(
                f"your view returned a {type(theirs).__name__}; return an HttpResponse, such as "
                "JsonResponse({…})"
            )
        body = theirs.content
    return Response(theirs.status_code, body, tuple(theirs.items()))


def _written(response: Response) -> HttpResponse:
    django_response = HttpResponse(response.body, status=response.status)
    if response.header("content-type") is None:
        del django_response["content-type"]
    for name, value in response.headers:
        django_response[name] = value
    return django_response
