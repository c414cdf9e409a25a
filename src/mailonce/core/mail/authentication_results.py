"""Read what a mail server in front of us found out about a sender (RFC 8601).

Anybody can write such a field. It is believed only where it names a server that the operator
trusts, and only the topmost one of that server: it stands above everything that was in the mail
when it reached that server. The server must remove foreign fields with its own name (RFC 8601 §5).
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import get_args

from mailonce.core.mail.incoming import Authentication, AuthenticationCheck, AuthenticationResult
from mailonce.core.mail.mime.header_block import HeaderFields
from mailonce.core.text import UNSTORABLE

VALUE_CHARS_MAX = 16_384
CHECKS_MAX = 20

_RESULTS = frozenset(get_args(AuthenticationResult))
_CLAUSE = re.compile(r"(?:\"[^\"]*\"|[^;\"])+")
_METHOD = re.compile(r"([a-z][a-z0-9-]{1,30})(?:\s*/\s*\d+)?\s*=\s*([a-z]+)", re.IGNORECASE)
_PROPERTY = re.compile(
    r"(?:smtp|header|body|policy)\s*\.\s*([a-z0-9-]+)\s*=\s*(?:\"([^\"]*)\"|([^\s;]+))",
    re.IGNORECASE,
)
_REASON = re.compile(r"\breason\s*=\s*(?:\"([^\"]{0,500})\"|([^\s;]{1,500}))", re.IGNORECASE)
# The property that names the domain a result is about.
_DOMAINS = {"spf": ("mailfrom", "helo"), "dkim": ("d", "i"), "dmarc": ("from",), "arc": ("d",)}


def read_authentication(
    fields: HeaderFields, trusted_servers: Sequence[str]
) -> Authentication | None:
    """Read the results of a trusted server; None where there are none."""
    trusted = {name.lower().rstrip(".") for name in trusted_servers}
    received = 0
    for name, value in fields.fields:
        lower = name.lower()
        received += lower == "received"
        if received > 1:
            # Below the second hop, nobody whom we know has looked at it.
            return None
        if lower != "authentication-results":
            continue
        text = _without_comments(UNSTORABLE.sub("\ufffd", value[:VALUE_CHARS_MAX]))
        server, _, results = text.partition(";")
        words = server.split()
        authserv_id = words[0].strip('"').lower().rstrip(".") if words else ""
        if authserv_id in trusted:
            return _authentication(results, authserv_id)
    return None


def _authentication(results: str, server: str) -> Authentication:
    checks: dict[str, list[AuthenticationCheck]] = {}
    for method, check in _checks(results):
        checks.setdefault(method, []).append(check)
    return Authentication(
        spf=next(iter(checks.get("spf", ())), None),
        dkim=tuple(checks.get("dkim", ())),
        dmarc=next(iter(checks.get("dmarc", ())), None),
        arc=next(iter(checks.get("arc", ())), None),
        checked_by="server",
        server=server,
    )


def _checks(results: str) -> Iterator[tuple[str, AuthenticationCheck]]:
    for clause in islice(_CLAUSE.findall(results), CHECKS_MAX):
        match = _METHOD.match(clause.strip())
        if match is None or match[1].lower() not in _DOMAINS:
            continue
        method, word = match[1].lower(), match[2].lower()
        properties = {one[1].lower(): one[2] or one[3] or "" for one in _PROPERTY.finditer(clause)}
        named = (properties.get(name) for name in _DOMAINS[method])
        domain = next((value for value in named if value), None)
        reason = _REASON.search(clause)
        yield (
            method,
            AuthenticationCheck(
                result=_result(word),
                domain=domain.rpartition("@")[2].lower()[:255] or None if domain else None,
                detail=reason[1] or reason[2] if reason else None,
            ),
        )


def _result(word: str) -> AuthenticationResult:
    word = {"hardfail": "fail"}.get(word, word)
    return word if word in _RESULTS else "unknown"  # type: ignore[return-value]


def _without_comments(text: str) -> str:
    """Leave out what stands in brackets, at any depth, outside of quotes."""
    kept: list[str] = []
    depth = 0
    for piece in re.findall(r"\"[^\"]*\"?|[()]|[^()\"]+", text):
        if piece == "(":
            depth += 1
        elif piece == ")":
            depth = max(0, depth - 1)
        elif depth == 0:
            kept.append(piece)
    return "".join(kept)
