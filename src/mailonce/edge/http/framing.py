"""Find where one request ends: the parser is given no more before that one is answered.

The parser reads all that it is given. Given more than one request, it would turn each into an
object that waits; given the bytes of one, whatever follows waits as bytes, and then in the
sender's own socket. Every head ends with an empty line, a body of declared length after as many
bytes, and a chunked body with an empty line, too (which may also stand in its midst).
"""

import re
from collections.abc import Sequence

# The longest method that the parser knows has ten letters.
_METHOD = re.compile(rb"(?:\r?\n)*(?:[A-Z-]{1,16}(?: |\Z)|\Z)")
_UPGRADE = re.compile(rb"(?i)(?<=\n)upgrade(?=[\t ]*:)")
# A chunked body full of empty lines is cut at this many of them, then only at fixed sizes.
CUTS_MAX = 64
CUT_BYTES_MIN = 4096


def head_end(data: bytes) -> int:
    """Give where a head ends, or -1 where it does not end yet."""
    usual = data.find(b"\n\r\n")
    end = usual + 3 if usual >= 0 else -1
    # The parser refuses such lines; it only has to be given them.
    bare = data.find(b"\n\n", 0, end if end >= 0 else len(data))
    return bare + 2 if bare >= 0 else end


def begins_like_a_request(head: bytes) -> bool:
    """Say whether a half head may become a request: TLS, for one, never will."""
    return _METHOD.match(head) is not None


def names_one_host(headers: Sequence[tuple[bytes, bytes]], version: str) -> bool:
    """Say whether a request has one Host header (RFC 9112, 3.2); HTTP/1.0 knows none."""
    hosts = sum(name == b"host" for name, _ in headers)
    return hosts == 1 or (hosts == 0 and version == "1.0")


def without_upgrade(head: bytes) -> bytes:
    """Rename the Upgrade header, which we may ignore (RFC 9110, 7.8).

    The parser would take the body of such a request for the other protocol's bytes.
    """
    return _UPGRADE.sub(b"x-upgrade", head)


def chunked_end(last: bytes, data: bytes, *, cuts: int) -> int:
    """Give how much of a chunked body may be read at once, and never more than one message.

    `last` is what was read before, three bytes are enough; `cuts` says how often it was asked
    since bytes came in. A body that wastes its cuts may be read together with what follows it.
    """
    start = CUT_BYTES_MIN if cuts > CUTS_MAX else 0
    if not start:
        for before in (3, 2, 1):
            if last[-before:] + data[: 4 - before] == b"\r\n\r\n":
                return 4 - before
    end = data.find(b"\r\n\r\n", start)
    return end + 4 if end >= 0 else len(data)
