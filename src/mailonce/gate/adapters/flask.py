"""Flask: a decorator for views; the transaction is the passage's, at `flask.g.passage.tx`."""

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import currentframe, iscoroutinefunction
from typing import Any, ParamSpec

from flask import Blueprint, Flask, current_app, g, request
from flask import Response as FlaskResponse
from flask.typing import ResponseReturnValue
from werkzeug.exceptions import RequestEntityTooLarge

from mailonce.errors import ConfigError, UnavailableError
from mailonce.gate.adapters.wsgi import concluded, demand_blocking_gate, held
from mailonce.gate.gate import Gate, Passage
from mailonce.gate.rules.answer import Answer, TooLarge
from mailonce.gate.rules.http import Request, Response

P = ParamSpec("P")
View = Callable[P, ResponseReturnValue]


def gated(gate: Gate[Any]) -> Callable[[View[P]], Callable[P, ResponseReturnValue]]:
    """Put `gate` before a view; `flask.g.passage` is then the hold on its key.

        @app.post("/hooks")
        @gated(gate)
        def receive(): ...

    Error handlers of the app run inside: what they make of an exception is what is recorded, or
    left to be tried again. Raises: ConfigError for an async view, or a gate that must be awaited.
    """
    demand_blocking_gate(gate)
    if gate.awaits:
        raise ConfigError("Flask's views block; use Gate with a blocking store, not AsyncGate")

    def decorate(view: View[P]) -> Callable[P, ResponseReturnValue]:
        if iscoroutinefunction(view):
            raise ConfigError("the gate of Flask needs a sync view")
        # A factory has its app, or blueprint, as a name of its own.
        caller = currentframe()
        caller = None if caller is None else caller.f_back
        if _is_registered(view, {} if caller is None else caller.f_locals):
            raise ConfigError(
                f"the view {view.__name__!r} was added to the app before its gate; write "
                "`@gated(gate)` below `@app.post(…)`"
            )

        @wraps(view)
        def through(*args: P.args, **kwargs: P.kwargs) -> ResponseReturnValue:
            if request.method not in gate.rules.policy.methods:
                return view(*args, **kwargs)
            got = _enter(gate)
            if isinstance(got, Answer):
                return _written(got.response)
            g.passage = got
            return _finished(gate, got, lambda: view(*args, **kwargs))

        return through

    return decorate


def _is_registered(view: Callable[..., Any], names: Mapping[str, object]) -> bool:
    """Say whether an app or blueprint of these names, or of the view's module, has it as it is."""
    for one in (*getattr(view, "__globals__", {}).values(), *names.values()):
        # By their types: a proxy would ask the object that it stands for.
        if issubclass(type(one), Flask) and view in one.view_functions.values():
            return True
        if issubclass(type(one), Blueprint) and any(
            _holds(deferred, view) for deferred in one.deferred_functions
        ):
            return True
    return False


def _holds(deferred: Callable[..., Any], view: Callable[..., Any]) -> bool:
    """Say whether what a blueprint does later is about `view`."""
    cells = getattr(deferred, "__closure__", None) or ()
    try:
        return any(cell.cell_contents is view for cell in cells)
    except ValueError:
        # A name of the app's own function that has no value yet.
        return False


def _enter(gate: Gate[Any]) -> "Passage[Any] | Answer":
    limit = gate.rules.policy.body_bytes_max
    known = request.max_content_length
    request.max_content_length = limit if known is None else min(limit, known)
    try:
        body = request.get_data()
    except RequestEntityTooLarge:
        return gate.rules.answer(TooLarge())
    return gate.enter(
        Request(
            headers=tuple(request.headers.items()),
            body=body,
            method=request.method,
            path=request.path,
            query=request.query_string.decode("latin-1"),
        )
    )


def _finished(
    gate: Gate[Any], passage: Passage[Any], view: Callable[[], ResponseReturnValue]
) -> ResponseReturnValue:
    theirs: FlaskResponse | None = None

    def work() -> Response:
        nonlocal theirs
        try:
            result = view()
        except UnavailableError:
            # The gate's own error; the gate answers it.
            raise
        except Exception as error:  # noqa: BLE001 - raised again where the app has no handler for it
            result = current_app.handle_user_exception(error)
        theirs = current_app.make_response(result)
        return _read(theirs, gate.rules.policy.held_bytes_max)

    ours, response = concluded(gate, passage, work)
    return theirs if theirs is not None and response is ours else _written(response)


def _read(theirs: FlaskResponse, bytes_max: int) -> Response:
    """Take what can be recorded; a stream is read inside the transaction, where it still can."""
    theirs.direct_passthrough = False
    if theirs.is_sequence:
        body = theirs.get_data()
    else:
        body = held(theirs.iter_encoded(), bytes_max)
        theirs.set_data(body)
    return Response(theirs.status_code, body, tuple(theirs.headers.items()))


def _written(response: Response) -> FlaskResponse:
    flask_response = FlaskResponse(response.body, status=response.status)
    del flask_response.headers["content-type"]
    for name, value in response.headers:
        flask_response.headers.add(name, value)
    return flask_response
