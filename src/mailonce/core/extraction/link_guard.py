"""Judge where a link leads, before anybody follows it.

The operator says which hosts and paths are allowed; nothing is derived from who sent the mail, for
whoever registers a domain sends from it. A link is rejected for how it is written or where it
leads; it is for review where that cannot be known: behind a click counter, or when an allowed host
is told to lead on to a foreign one. No request is made.
"""

import re
from collections.abc import Iterator, Sequence
from urllib.parse import unquote, urljoin

from mailonce.core.extraction.click_wrappers import decode_base64, open_wrapper
from mailonce.core.extraction.host_name import (
    is_internal_name,
    is_ip_literal,
    is_public_suffix,
    registrable_domain,
)
from mailonce.core.extraction.link_verdict import (
    LinkDecision,
    LinkReason,
    LinkRule,
    LinkVerdict,
)
from mailonce.core.extraction.web_address import WebAddress, parse_web_address

WRAPPERS_MAX = 3
# How often a value may be encoded before we stop looking.
DECODINGS_MAX = 3
VALUES_MAX = 100
# How many redirects of one link a client may follow, each judged.
REDIRECTS_MAX = 5

_DEFAULT_PORTS = {"https": 443, "http": 80}
_ABSOLUTE = re.compile(
    r"[\x00-\x20]*(?:[a-z][a-z0-9+.-]*:[/\\]*|[/\\]{2,})([^/\\?#]*)", re.IGNORECASE
)
# Browsers leave these out wherever they stand in an address.
_LEFT_OUT = dict.fromkeys(map(ord, "\t\r\n"))
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{12,}={0,2}")
_ENCODED_PATH = re.compile(r"%2f|%5c|%25", re.IGNORECASE)
_INNER_ADDRESS = re.compile(r"https?:(?:/|%2f)|(?<=.)//", re.IGNORECASE)


def judge_link(url: str, allow: Sequence[LinkRule]) -> LinkVerdict:
    """Judge a link as it stands in a mail; wrappers that show their target are opened first."""
    wrappers: list[str] = []
    while True:
        address = parse_web_address(url)
        if isinstance(address, LinkReason):
            return LinkVerdict(
                decision=LinkDecision.REJECTED, reason=address, wrappers=tuple(wrappers)
            )
        wrapped = open_wrapper(address)
        if wrapped is None or wrapped.target is None:
            break
        wrappers.append(address.host)
        if len(wrappers) > WRAPPERS_MAX:
            return _verdict(address, LinkReason.WRAPPED_TOO_DEEP, wrappers)
        url = wrapped.target
    reason = _host_trouble(address, allow)
    if wrapped is not None and not _is_named(address, allow) and reason in _UNKNOWN_TARGET:
        reason = LinkReason.CLICK_TRACKER
    return _verdict(address, reason or _path_trouble(address, allow), wrappers)


def judge_redirect(url: str, location: str, allow: Sequence[LinkRule]) -> LinkVerdict:
    """Judge where a response sends us on: `location` is its header, relative to `url` or not."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", location):
        return judge_link(location, allow)
    # Joining would repair what must be refused.
    probe = parse_web_address(f"https://a.example/{location}")
    if isinstance(probe, LinkReason):
        return LinkVerdict(decision=LinkDecision.REJECTED, reason=probe)
    return judge_link(urljoin(url, location), allow)


_UNKNOWN_TARGET = (None, LinkReason.HOST_NOT_ALLOWED)
_FOR_REVIEW = frozenset(
    {LinkReason.CLICK_TRACKER, LinkReason.FOREIGN_REDIRECT, LinkReason.ENCODED_PATH}
)


def _verdict(
    address: WebAddress, reason: LinkReason | None, wrappers: Sequence[str]
) -> LinkVerdict:
    if reason is None:
        decision = LinkDecision.ALLOWED
    elif reason in _FOR_REVIEW:
        decision = LinkDecision.REVIEW
    else:
        decision = LinkDecision.REJECTED
    is_name = not is_ip_literal(address.host)
    return LinkVerdict(
        decision=decision,
        reason=reason or LinkReason.ALLOWED_HOST,
        url=address.url,
        scheme=address.scheme,
        host=address.host,
        port=address.port,
        path=address.path,
        query=address.query,
        fragment=address.fragment,
        domain=registrable_domain(address.host) if is_name else "",
        wrappers=tuple(wrappers),
    )


def _host_trouble(address: WebAddress, allow: Sequence[LinkRule]) -> LinkReason | None:
    """Say why an address may not be led to, whatever its path."""
    if _is_named(address, allow):
        return None
    if address.scheme != "https":
        return LinkReason.NOT_HTTPS
    if is_ip_literal(address.host):
        return LinkReason.IP_ADDRESS
    if is_internal_name(address.host):
        return LinkReason.INTERNAL_NAME
    if is_public_suffix(address.host):
        return LinkReason.PUBLIC_SUFFIX
    if address.port != 443:
        return LinkReason.OTHER_PORT
    if any(_covers_host(rule, address) for rule in allow):
        return None
    if any(label.startswith("xn--") for label in address.host.split(".")):
        return LinkReason.PUNYCODE
    return LinkReason.HOST_NOT_ALLOWED


def _path_trouble(address: WebAddress, allow: Sequence[LinkRule]) -> LinkReason | None:
    rules = [rule for rule in allow if _covers_host(rule, address)]
    covering = [rule for rule in rules if _covers_path(rule, address.path)]
    if not covering:
        return LinkReason.PATH_NOT_ALLOWED
    if _ENCODED_PATH.search(address.path) and all(r.path_prefix != "/" for r in covering):
        # Servers may decode it to a path outside of what is allowed.
        return LinkReason.ENCODED_PATH
    own = {registrable_domain(address.host), *(registrable_domain(rule.host) for rule in allow)}
    hosts = {address.host, *(rule.host.lower() for rule in allow)}
    for target in _targets(address):
        if target not in hosts and registrable_domain(target) not in own - {""}:
            return LinkReason.FOREIGN_REDIRECT
    return None


def _is_named(address: WebAddress, allow: Sequence[LinkRule]) -> bool:
    """Say whether a rule names exactly this scheme, host and port, as for a local server."""
    return any(_host_of(rule) == address.host and _has_port(rule, address) for rule in allow)


def _covers_host(rule: LinkRule, address: WebAddress) -> bool:
    host = _host_of(rule)
    if not _has_port(rule, address):
        return False
    if host == address.host:
        return True
    is_domain = not is_ip_literal(host) and registrable_domain(host) == host
    return is_domain and address.host.endswith(f".{host}")


def _covers_path(rule: LinkRule, path: str) -> bool:
    prefix = rule.path_prefix if rule.path_prefix.startswith("/") else f"/{rule.path_prefix}"
    return path.startswith(prefix) if prefix.endswith("/") else _is_below(path, prefix)


def _is_below(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(f"{prefix}/")


def _host_of(rule: LinkRule) -> str:
    host = rule.host.lower().removesuffix(".")
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _has_port(rule: LinkRule, address: WebAddress) -> bool:
    port = rule.port if rule.port is not None else _DEFAULT_PORTS.get(rule.scheme, 443)
    return rule.scheme == address.scheme and port == address.port


def _targets(address: WebAddress) -> Iterator[str]:
    """Give the hosts of addresses that stand inside of an address."""
    values = re.split("[&;]", address.query)[:VALUES_MAX]
    values = [value.partition("=")[2] or value for value in values]
    values += re.split("[&;]", address.fragment)[:VALUES_MAX]
    if inner := _INNER_ADDRESS.search(address.path):
        values.append(address.path[inner.start() :])
    for value in values:
        for form in _forms(value):
            if match := _ABSOLUTE.match(form.translate(_LEFT_OUT)):
                yield match[1].rpartition("@")[2].partition(":")[0].lower().removesuffix(".")


def _forms(value: str) -> Iterator[str]:
    """Give a value as it stands, decoded as often as it may have been encoded, and from base64."""
    for _ in range(DECODINGS_MAX + 1):
        yield value
        decoded = unquote(value.replace("+", " "))
        if decoded == value:
            break
        value = decoded
    if _BASE64.fullmatch(value):
        yield decode_base64(value) or ""
