"""Read a request that waits: one packet, plain headers, and nothing in its query but plain values.

Whatever is unusual in the least is not understood here, and goes to the parser.
"""

import re

from msgspec import Struct

START = b"GET /v1/"
_HEAD = re.compile(
    rb"GET /v1/(expectations|inboxes)/([A-Za-z0-9@._+=~-]++)(/messages)?+\?([a-z0-9=&.]++)"
    rb" HTTP/1\.1\r\n((?:[A-Za-z0-9-]++:[\t -~]*+\r\n)++)\r\n"
)
_WAIT = re.compile(rb"(?<=[?&]wait=)[0-9.]++")
_SECONDS = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,9})?")
# Each of these asks for something else than the path says, or makes a request longer than it looks.
_UNUSUAL = frozenset(
    {"content-length", "expect", "mailonce-workspace", "transfer-encoding", "upgrade"}
)


class WaitRequest(Struct, frozen=True, gc=False):
    """A request as it was read: what it is about, the values of its query, and its key."""

    noun: str
    name: str
    query: dict[str, str]
    wait_s: float
    secret: str


def read_wait(data: bytes) -> WaitRequest | None:
    """Read a request that waits for an expectation, or for mail; None where a parser must."""
    head = _HEAD.fullmatch(data)
    if head is None or (head[1] == b"inboxes") != (head[3] is not None):
        return None
    headers = _headers(head[5].decode("ascii"))
    query = _query(head[4].decode("ascii"))
    if headers is None or query is None or not _SECONDS.fullmatch(query.get("wait", "")):
        return None
    kind, _, secret = headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer":
        return None
    wait_s = float(query.pop("wait"))
    return WaitRequest(head[1].decode(), head[2].decode(), query, wait_s, secret.strip())


def with_wait(data: bytes, wait_s: float) -> bytes:
    """Write a request that was read, with another time to wait."""
    return _WAIT.sub(b"%.3f" % max(0.0, wait_s), data, count=1)


def _headers(text: str) -> dict[str, str] | None:
    lines = text.split("\r\n")
    headers: dict[str, str] = {}
    for line in lines[:-1]:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip(" \t")
    # A repeated header leaves fewer names than lines.
    if len(headers) != len(lines) - 1 or not _UNUSUAL.isdisjoint(headers) or "host" not in headers:
        return None
    return headers if headers.get("connection", "keep-alive").lower() == "keep-alive" else None


def _query(text: str) -> dict[str, str] | None:
    parts = [part.partition("=") for part in text.split("&")]
    query = {name: value for name, _, value in parts}
    return query if len(query) == len(parts) and all(query.values()) else None
