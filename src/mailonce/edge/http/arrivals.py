"""POST /in/{source}: the door for webhooks, plain ASGI because it is the busiest path."""

from collections.abc import Callable, Iterable
from urllib.parse import unquote

import orjson
from msgspec import Struct
from msgspec.structs import replace
from starlette.types import Receive, Scope, Send

from mailonce.core.arrival import Arrival
from mailonce.core.proof import is_within
from mailonce.edge.http.glance import Asked
from mailonce.errors import ConfigError, MissingError, UnavailableError
from mailonce.pipeline.receive import Pending, Reply, begin
from mailonce.pipeline.record import Heard
from mailonce.service import Service
from mailonce.telemetry import UNEXPECTED, log

PREFIX = "/in/"
TOO_LARGE = "too large"
HOPS_MAX = 32
Headers = dict[str, str]
Client = tuple[str, int] | None

_PREFIX_CHARS = len(PREFIX)
_JSON = (b"content-type", b"application/json")


async def take(service: Service, scope: Scope, receive: Receive, send: Send) -> None:
    """Read an arrival under the size limit, hand it on, and answer."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    try:
        body = await _read_body(headers, receive, service.body_bytes_max)
    except ConnectionError:
        return
    query = scope["query_string"].decode("latin-1")
    asked = Asked(scope["path"], query, headers, body or b"")
    if body is None:
        reply = replace(too_large(service, asked), headers={"Connection": "close"})
    else:
        reply = await answer(service, scope["method"], asked, scope.get("client"))
    await _send(send, reply)


class Came(Struct, gc=False):
    """A POST that came, and who hears the answer."""

    asked: Asked
    client: Client
    # Called once what came is durable, or refused.
    answered: Callable[[Reply], None]
    # Called where somebody must be waited for, or something is wrong: then nothing was done, and
    # `answer` finds out what.
    delayed: Callable[[Asked], None]


def answer_soon(service: Service, came: Iterable[Came]) -> None:
    """Hand on what came in one turn of the event loop, without waiting for anybody.

    Invariant: each hears exactly once, whatever happens to the others.
    """
    known, arrivals = [], []
    for one in came:
        try:
            name, arrival = _arrival_of(service, "POST", one.asked, one.client)
            source = service.snapshot.find_source(name)
            if source is None:
                one.delayed(one.asked)
            else:
                known.append(one)
                arrivals.append((source, arrival))
        except Exception as error:  # noqa: BLE001 - the others of its turn must be handed on as well
            one.answered(_unexpected(error))
    for one, begun in zip(known, begin(service.door, arrivals), strict=True):
        try:
            if isinstance(begun, Pending):
                _submit(service, begun, one.answered)
            elif begun is None:
                one.delayed(one.asked)
            else:
                one.answered(begun)
        except Exception as error:  # noqa: BLE001 - the others of its turn must be handed on as well
            one.answered(_unexpected(error))


def _submit(service: Service, begun: Pending, answered: Callable[[Reply], None]) -> None:
    try:
        service.recorder.submit(begun.entry, lambda heard: answered(_reply_to(begun, heard)))
    except UnavailableError as error:
        answered(begun.reply_to(error))


async def answer(service: Service, method: str, asked: Asked, client: Client) -> Reply:
    """Hand an arrival on, and turn whatever goes wrong into an answer."""
    try:
        name, arrival = _arrival_of(service, method, asked, client)
        return await service.receive(name, arrival)
    except MissingError as error:
        return Reply(404, {"detail": str(error)})
    except (UnavailableError, ConfigError) as error:
        # Before the source is known there is no provider whose code would fit better.
        return Reply(503, {"detail": str(error)}, 2)
    except Exception as error:  # noqa: BLE001 - an outermost loop: the provider must try again
        return _unexpected(error)


def too_large(service: Service, asked: Asked) -> Reply:
    """Refuse a body above the limit, unread, and keep whose it claimed to be."""
    source = service.snapshot.find_source(asked.path[_PREFIX_CHARS:].partition("/")[0])
    if source is not None:
        now_ms = service.clock.now_ms()
        arrival = Arrival(method="POST", headers=asked.headers, body=b"", now_ms=now_ms)
        service.refusals.add(source, arrival, TOO_LARGE)
        service.metrics.refusals.labels(source.id, TOO_LARGE).inc()
    return Reply(413, {"detail": f"the body is above {service.body_bytes_max} bytes"})


def _arrival_of(service: Service, method: str, asked: Asked, client: Client) -> tuple[str, Arrival]:
    """Give the name of the source, and what came to it."""
    name, _, token = asked.path[_PREFIX_CHARS:].partition("/")
    peer = client[0] if client else None
    if service.trusted_proxies and is_within(peer, service.trusted_proxies):
        forwarded = asked.headers.get("x-forwarded-for", "")
        peer = _forwarded_for(forwarded, service.trusted_proxies) or peer
    return name, Arrival(
        method=method,
        headers=asked.headers,
        body=asked.body,
        now_ms=service.clock.now_ms(),
        query=asked.query,
        token=unquote(token) if token else None,
        peer=peer,
    )


def _reply_to(pending: Pending, heard: Heard) -> Reply:
    try:
        return pending.reply_to(heard)
    except Exception as error:  # noqa: BLE001 - an outermost loop: the provider must try again
        return _unexpected(error)


def _unexpected(error: Exception) -> Reply:
    log.error(UNEXPECTED, where="in", error=type(error).__name__, exc_info=error)
    return Reply(503, {"detail": "an unexpected error was logged"}, 2)


async def _read_body(headers: Headers, receive: Receive, bytes_max: int) -> bytes | None:
    """Read the whole body, or None as soon as it is above the limit: nothing more is read.

    Raises: ConnectionError where the sender hung up in its midst.
    """
    length = headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length) > bytes_max:
        return None
    message = await receive()
    body: bytes = message.get("body", b"")
    if not message.get("more_body"):
        return body if len(body) <= bytes_max else None
    parts, size = [body], len(body)
    while message.get("more_body"):
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionError("the sender hung up before the end of its body")
        part = message.get("body", b"")
        parts.append(part)
        size += len(part)
        if size > bytes_max:
            return None
    return b"".join(parts)


def _forwarded_for(header: str, proxies: Iterable[str]) -> str | None:
    """Take the last address that no proxy of ours vouches for: the ones before it may be forged."""
    trusted = tuple(proxies)
    for address in (part.strip() for part in reversed(header.rsplit(",", HOPS_MAX)[-HOPS_MAX:])):
        if not is_within(address, trusted):
            return address
    return None


async def _send(send: Send, reply: Reply) -> None:
    # 204 has no body by definition.
    body = b"" if reply.code == 204 else orjson.dumps(reply.body)
    headers = [_JSON, (b"content-length", b"%d" % len(body))] if body else []
    headers += [(name.lower().encode(), value.encode()) for name, value in reply.headers.items()]
    if reply.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % reply.retry_after_s))
    await send({"type": "http.response.start", "status": reply.code, "headers": headers})
    await send({"type": "http.response.body", "body": body})
