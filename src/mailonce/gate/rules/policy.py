"""The rules of one gate: where the key is, what is compared, how it answers."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from inspect import iscoroutine
from typing import Literal, TypeVar

from mailonce.errors import ConfigError
from mailonce.gate.rules import fingerprint, keys
from mailonce.gate.rules.arity import demand_arguments
from mailonce.gate.rules.decision import Claim, is_success
from mailonce.gate.rules.form import of_form
from mailonce.gate.rules.http import Request, Response
from mailonce.gate.rules.keys import BadKey

# Never Set-Cookie, nor anything else that belongs to one connection or one caller's session.
KEPT_HEADERS = (
    "content-type",
    "content-language",
    "content-disposition",
    "content-location",
    "etag",
    "last-modified",
    "link",
    "location",
)

# How the parts beside the body are named where they differ from the first copy's.
QUERY = "the query string"
AUTHORIZATION = "the Authorization header"
# Set on a redelivery by mailonce; a recorded refusal may then be tried again.
REDELIVERY = "x-mailonce-redelivery"

# Gives a reason where the sender is not verified; the sender and the log are told it.
Verify = Callable[[Request, int], str | None]
Maker = TypeVar("Maker", bound=Callable[..., Verify])
_MAKER = "mailonce_makes_verify"


def makes_verify(make: Maker) -> Maker:
    """Mark a function that makes a `Verify`: whoever forgets to call it would refuse everybody."""
    setattr(make, _MAKER, True)
    return make


def wall_ms() -> int:
    """Give the wall time in unix milliseconds: for signatures; leases use the database's clock."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Every choice of a gate, with the default that is safe for webhooks.

    caller         whose key this is: a text, or a function of the request (a token's owner); None:
                   all senders are one, but the Authorization header must be equal in all copies
    operation      what is asked: a text, or a function; None: method and path
    key            reads the key from elsewhere; None: the two headers
    key_required   False lets requests without a key through, ungated
    query          whether the query string is part of the content that is compared
    other_content  same key, other body: "conflict" refuses it, "revision" lets it run as well
    answers        the codes of "seed" (409 for other content) or of the "ietf" draft (422, 409)
    running        while the first copy runs: "later" is 503, "accepted" the seed's plain 202
    verify         proves the sender before anything is looked up or written
    terminal       which statuses are recorded: `is_success`, `is_final` or your own; work that
                   ends otherwise is undone, and tried again by the next copy
    point_s        how long a recovery point may take: an awaited one is stopped, and the lease of a
                   blocking one is renewed no longer
    held_bytes_max the largest response that is held back until its work is committed
    """

    caller: str | Callable[[Request], str] | None = None
    operation: str | Callable[[Request], str] | None = None
    key: Callable[[Request], str | None] | None = None
    key_required: bool = True
    key_chars_max: int = 255
    methods: frozenset[str] = frozenset({"POST", "PUT", "PATCH", "DELETE"})
    fingerprint: Literal["json", "raw"] = "json"
    query: Literal["compared", "ignored"] = "compared"
    other_content: Literal["conflict", "revision"] = "conflict"
    answers: Literal["seed", "ietf"] = "seed"
    running: Literal["later", "accepted"] = "later"
    verify: Verify | None = None
    now_ms: Callable[[], int] = wall_ms
    terminal: Callable[[int], bool] = is_success
    window_s: float = 35 * 86_400
    lease_s: float = 60
    retry_after_s: int = 5
    point_s: float = 300
    body_bytes_max: int = 1024 * 1024
    response_bytes_max: int = 256 * 1024
    points_bytes_max: int = 256 * 1024
    held_bytes_max: int = 16 * 1024 * 1024
    kept_headers: tuple[str, ...] = KEPT_HEADERS

    def __post_init__(self) -> None:
        """Refuse what could never work.

        Raises: ConfigError.
        """
        for name in (
            "window_s",
            "lease_s",
            "retry_after_s",
            "point_s",
            "key_chars_max",
            "body_bytes_max",
            "response_bytes_max",
            "points_bytes_max",
            "held_bytes_max",
        ):
            value: object = getattr(self, name)
            if not isinstance(value, int | float):
                raise ConfigError(f"`{name}` must be a number, it is {value!r}")
            if value <= 0:
                raise ConfigError(f"`{name}` must be above 0, it is {value}")
        for name, choices in (
            ("fingerprint", ("json", "raw")),
            ("query", ("compared", "ignored")),
            ("other_content", ("conflict", "revision")),
            ("answers", ("seed", "ietf")),
            ("running", ("later", "accepted")),
        ):
            if getattr(self, name) not in choices:
                raise ConfigError(f"`{name}` must be one of {', '.join(choices)}")
        if not isinstance(self.key_required, bool):
            raise ConfigError(f"`key_required` must be True or False, it is {self.key_required!r}")
        # As frameworks write them: a name in small letters would match no request, and gate none.
        methods = frozenset(name.upper() for name in _names("methods", self.methods))
        object.__setattr__(self, "methods", methods)
        object.__setattr__(self, "kept_headers", _names("kept_headers", self.kept_headers))
        self._check_functions()
        if any(name.lower() == "set-cookie" for name in self.kept_headers):
            raise ConfigError("`kept_headers` has set-cookie; one caller's cookie is not another's")

    def _check_functions(self) -> None:
        """Refuse functions that the gate could not call.

        Raises: ConfigError.
        """
        if self.verify is not None and not callable(self.verify):
            raise ConfigError(
                "`verify` must be a function that checks a request; for a secret, write "
                "`verify=standard_webhooks(SECRET)`, of mailonce.gate.signature"
            )
        if getattr(self.verify, _MAKER, None) is True:
            name = getattr(self.verify, "__name__", "")
            raise ConfigError(
                f"`verify` is the function that makes the check; write `verify={name}(SECRET)`"
            )
        if self.verify is not None:
            demand_arguments(self.verify, "verify", "request", "now_ms")
        if self.key is not None and not callable(self.key):
            raise ConfigError(
                "`key` must be a function of the request; for the signed id of Standard Webhooks, "
                "write `key=webhook_id`, of mailonce.gate.signature"
            )
        if self.key is not None:
            demand_arguments(self.key, "key", "request")
        for name in ("terminal", "now_ms"):
            if not callable(getattr(self, name)):
                what = (
                    "`is_final`, or a function of a status" if name == "terminal" else "a function"
                )
                raise ConfigError(f"`{name}` must be {what}, it is {getattr(self, name)!r}")
        for name in ("caller", "operation"):
            value: object = getattr(self, name)
            if value is not None and not isinstance(value, str) and not callable(value):
                raise ConfigError(f"`{name}` must be a text or a function, it is {value!r}")

    def refusal_of(self, request: Request) -> str | None:
        """Give the reason why the sender is not verified; None where it is, or need not be.

        Raises: ConfigError where `verify` gives neither: what it means is not guessed.
        """
        if self.verify is None:
            return None
        reason: object = self.verify(request, self.now_ms())
        if reason is not None and not (isinstance(reason, str) and reason):
            raise ConfigError(
                "`verify` must give None where the sender is verified, and otherwise a reason as a "
                f"text; it gave {_shown(reason)}"
            )
        return reason

    def claim_of(self, request: Request) -> Claim | BadKey:
        """Read what the request claims.

        Raises: ConfigError where `key` gives neither a text nor None.
        """
        if self.key is None:
            key = keys.key_of(request, chars_max=self.key_chars_max)
        else:
            read: object = self.key(request)
            if not isinstance(read, str | None):
                raise ConfigError(
                    f"`key` must give a text, or None where there is no key; it gave {_shown(read)}"
                    + ("; write `str(…)`" if isinstance(read, int) else "")
                )
            key = keys.checked(read, chars_max=self.key_chars_max)
        if isinstance(key, BadKey):
            return key
        whole, fields = self._content_of(request)
        if request.query and self.query == "compared":
            whole = fingerprint.with_part(whole, fields, QUERY, request.query)
        redelivery = False
        for name, value in request.headers:
            name = name.lower()  # noqa: PLW2901 - the header's own name is not needed
            if name == "authorization" and self.caller is None:
                # Two callers that chose the same key must not get each other's answers.
                whole = fingerprint.with_part(whole, fields, AUTHORIZATION, value.strip())
            elif name == REDELIVERY:
                redelivery = True
        if self.other_content == "revision":
            # Each content is a claim of its own: a late copy of an older one is still a copy.
            key = f"{key}#{whole}"
        return Claim(
            scope=self._scope(request),
            key=key,
            fingerprint=whole,
            fields=fields,
            redelivery=redelivery,
        )

    def _content_of(self, request: Request) -> tuple[str, dict[str, str]]:
        if self.fingerprint == "raw":
            return fingerprint.of_bytes(request.body), {}
        # No JSON begins so.
        if request.body.startswith(b"--"):
            form = of_form(list(request.values("content-type")), request.body)
            if form is not None:
                return form
        return fingerprint.of_json(request.body)

    def kept(self, response: Response) -> Response | None:
        """Give what is recorded of a response; None where it is not terminal."""
        if not self.terminal(response.status):
            return None
        names = _lowered(self.kept_headers)
        headers = tuple([pair for pair in response.headers if pair[0].lower() in names])
        if len(response.body) > self.response_bytes_max:
            # That it was done matters more than the body of its answer.
            headers = tuple(pair for pair in headers if not pair[0].lower().startswith("content"))
            return Response(response.status, b"", (*headers, ("x-mailonce-gate", "body-not-kept")))
        return Response(response.status, response.body, headers)

    def scope_of(self, *, method: str, path: str) -> str:
        """Give the scope of requests to one path, where neither choice is a function of them."""
        return self._scope(Request(method=method, path=path))

    def _scope(self, request: Request) -> str:
        caller = self.caller(request) if callable(self.caller) else self.caller or ""
        if self.operation is None:
            operation = f"{request.method} {request.path}".strip()
        elif callable(self.operation):
            operation = self.operation(request)
        else:
            operation = self.operation
        return _joined(caller, operation) if caller or operation else ""


def _names(field: str, given: object) -> tuple[str, ...]:
    """Read several names, in whatever collection they stand.

    Raises: ConfigError.
    """
    if isinstance(given, str):
        raise ConfigError(f'`{field}` is a set of names; write `{field}={{"{given}"}}`')
    if not isinstance(given, set | frozenset | list | tuple):
        raise ConfigError(f"`{field}` is a set of names, and not a {type(given).__name__}")
    for name in given:
        if not isinstance(name, str):
            raise ConfigError(f"`{field}` has {name!r}, which is no name")
    return tuple(given)


def _shown(given: object) -> str:
    """Say what a function of the app gave, without its content."""
    if isinstance(given, bool):
        return str(given)
    if iscoroutine(given):
        given.close()
        return "a coroutine: it may not be an `async def`"
    return "an empty text" if given == "" else f"a value of type {type(given).__name__}"


@lru_cache(maxsize=256)
def _joined(caller: str, operation: str) -> str:
    """Join as JSON, so that no chosen text can imitate the join of others."""
    return json.dumps([caller, operation])


@lru_cache(maxsize=16)
def _lowered(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(name.lower() for name in names)
