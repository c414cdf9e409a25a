"""Read a whole webhook at once: one packet, plain headers, a body of the length it declares.

Nearly every webhook is like that, and so are most requests to send; reading it so takes a third of
what a parser with a callback per header takes. Whatever is unusual in the least is not understood
here, and goes to the parser: nothing is ever read in two ways.
"""

import re

from msgspec import Struct

_HEAD = re.compile(
    rb"POST (/in/[!-~]++|/v1/sends) HTTP/1\.1\r\n((?:[A-Za-z0-9-]++:[\t -~]*+\r\n)++)\r\n"
)
# Each of these makes a request longer, shorter or other than it looks.
_UNUSUAL = frozenset({"connection", "expect", "transfer-encoding", "upgrade"})


class ArrivalRequest(Struct, frozen=True, gc=False):
    """A request as it was read; header names are lower-case, of a repeated one the last counts."""

    path: str
    query: str
    headers: dict[str, str]
    body: bytes


def read_whole(data: bytes) -> ArrivalRequest | None:
    """Read a request, or None where a parser must."""
    head = _HEAD.match(data)
    if head is None:
        return None
    lines = head[2].decode("ascii").split("\r\n")
    # The last line is empty.
    lines.pop()
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.lstrip(" \t")
    body = data[head.end() :]
    # A repeated header leaves fewer names than lines.
    if len(headers) != len(lines) or headers.get("content-length") != str(len(body)):
        return None
    if "host" not in headers:
        return None
    if not _UNUSUAL.isdisjoint(headers) and not _is_keep_alive(headers):
        return None
    path, _, query = head[1].decode("ascii").partition("?")
    return None if "#" in path or "#" in query else ArrivalRequest(path, query, headers, body)


def _is_keep_alive(headers: dict[str, str]) -> bool:
    """Say whether the only unusual header is `Connection: keep-alive`, the default."""
    others = _UNUSUAL.intersection(headers) - {"connection"}
    return not others and headers["connection"].lower() == "keep-alive"
