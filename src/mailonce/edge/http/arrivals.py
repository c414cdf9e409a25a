"""POST /in/{source}: where webhooks come in, with and without ASGI."""

from collections.abc import Iterable
from urllib.parse import unquote

import orjson
from msgspec.structs import replace
from starlette.types import Receive, Scope, Send

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.signatures.proof import is_within
from mailonce.core.signatures.refusal import TOO_LARGE
from mailonce.edge.http.request import ArrivalRequest
from mailonce.pipeline import drive_flows, large_bodies
from mailonce.pipeline.drive_flows import unexpected
from mailonce.pipeline.receive import Flow, Reply, receive
from mailonce.service import Service

PREFIX = "/in/"
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
    request = ArrivalRequest(scope["path"], query, headers, body or b"")
    if body is None:
        reply = replace(too_large(service, request), headers={"Connection": "close"})
    else:
        flow = _flow_of(service, scope["method"], request, scope.get("client"))
        reply = await drive_flows.drive(service.receiving, flow)
    await _send(send, reply)


def take_together(
    service: Service, requests: Iterable[tuple[ArrivalRequest, Client, drive_flows.Requester]]
) -> None:
    """Hand on what was received in one turn of the event loop.

    Invariant: each is answered exactly once, whatever happens to the others.
    """
    flows = []
    for request, client, requester in requests:
        try:
            flow = _flow_of(service, "POST", request, client)
        except Exception as error:  # noqa: BLE001 - the others of its turn must be handed on as well
            requester.answer(unexpected(error))
        else:
            flows.append((flow, requester))
    drive_flows.drive_together(service.receiving, flows)


def bytes_max_of(service: Service, request: ArrivalRequest, client: Client) -> int | Reply:
    """Say how large a body is taken after this head, if it is above the limit of webhooks."""
    name, arrival = _arrival_of(service, "POST", request, client)
    source = service.snapshot.find_source(name)
    if source is None:
        return service.body_bytes_max
    return large_bodies.bytes_max_of(
        service.receiving,
        source,
        arrival,
        usual=service.body_bytes_max,
        mail=service.mail_bytes_max,
    )


def too_large(service: Service, request: ArrivalRequest, bytes_max: int | None = None) -> Reply:
    """Refuse a body above the limit, unread, and count it for the source in its path."""
    source = service.snapshot.find_source(request.path[_PREFIX_CHARS:].partition("/")[0])
    if source is not None:
        now_ms = service.clock.now_ms()
        arrival = Arrival(method="POST", headers=request.headers, body=b"", now_ms=now_ms)
        service.refusals.add(source, arrival, TOO_LARGE)
        service.metrics.refusals.labels(source.id, TOO_LARGE).inc()
    limit = service.body_bytes_max if bytes_max is None else bytes_max
    return Reply(413, {"detail": f"the body is above {limit} bytes"})


def _flow_of(service: Service, method: str, request: ArrivalRequest, client: Client) -> Flow:
    """Begin to receive a request; the peer's address is read here, everything else in the flow."""
    name, arrival = _arrival_of(service, method, request, client)
    return receive(service.receiving, name, arrival)


def _arrival_of(
    service: Service, method: str, request: ArrivalRequest, client: Client
) -> tuple[str, Arrival]:
    """Give the source that the path names, and what arrived for it."""
    name, _, token = request.path[_PREFIX_CHARS:].partition("/")
    peer = client[0] if client else None
    if service.trusted_proxies and is_within(peer, service.trusted_proxies):
        forwarded = request.headers.get("x-forwarded-for", "")
        peer = _forwarded_for(forwarded, service.trusted_proxies) or peer
    return name, Arrival(
        method=method,
        headers=request.headers,
        body=request.body,
        now_ms=service.clock.now_ms(),
        query=request.query,
        token=unquote(token) if token else None,
        peer=peer,
    )


async def _read_body(headers: Headers, receive: Receive, bytes_max: int) -> bytes | None:
    """Read the whole body, or None as soon as it is above the limit: nothing more is read.

    Raises: ConnectionError where the sender hung up in the middle of it.
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
