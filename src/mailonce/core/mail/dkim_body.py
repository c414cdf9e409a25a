"""The body of a mail as DKIM hashes it (RFC 6376 §3.4.3, §3.4.4), in time that grows with its size.

Libraries use patterns that take quadratic time over long runs of spaces, or an object for each
line; a body may be forty megabytes that somebody chose.
"""

_TABS = bytes.maketrans(b"\t", b" ")


def canonical_body(body: bytes, *, is_relaxed: bool) -> bytes:
    """Give the bytes that are hashed: with CRLF, without empty lines at the end."""
    if body.count(b"\n") != body.count(b"\r\n"):
        body = body.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    if is_relaxed:
        body = body.translate(_TABS)
        # Each round halves the longest run, at the least.
        while b"  " in body:
            body = body.replace(b"        ", b" ").replace(b"  ", b" ")
        body = body.replace(b" \r\n", b"\r\n").removesuffix(b" ")
    end = _end_of_last_line(body)
    if end == 0:
        # Nothing but empty lines: the relaxed form is empty, the simple one is an empty line.
        return b"" if is_relaxed else b"\r\n"
    return body[:end] + b"\r\n"


def _end_of_last_line(body: bytes) -> int:
    """Find where the line ends that the empty lines at the end follow."""
    start = len(body.rstrip(b"\r\n"))
    tail = body[start:]
    if not tail.endswith(b"\r\n"):
        return len(body)
    # From here on there are nothing but pairs.
    first = max(tail.rfind(b"\r\r") + 1, tail.rfind(b"\n\n") + 2 if b"\n\n" in tail else 0)
    if tail.startswith(b"\n"):
        first = max(first, 1)
    return start + first
