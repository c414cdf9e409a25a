"""A host that links may lead to, as callers write it: `example.com/verify`."""

import re

from mailonce.core.extraction.host_name import is_ip_literal, is_valid_name, registrable_domain
from mailonce.core.extraction.link_verdict import LinkRule
from mailonce.core.mail.address import read_domain

LINK_HOST_CHARS_MAX = 500
PORT_MAX = 65_535
_DEFAULT_PORTS = {"https": 443, "http": 80}
_LINK_HOST = re.compile(
    r"(?:(?P<scheme>https?)://)?(?P<host>\[[0-9a-fA-F:.]+\]|[^\s/:@?#\[\]\\%]+)(?::(?P<port>\d{1,5}))?"
    r"(?P<path>/[^\s?#\\]*)?"
)


def read_link_host(text: str) -> LinkRule:
    """Read a host with the start of a path; a scheme or port is for local servers.

    Raises: ValueError with a sentence that says how one is written.
    """
    match = _LINK_HOST.fullmatch(text) if len(text) <= LINK_HOST_CHARS_MAX else None
    if match is None:
        raise ValueError(_trouble(text))
    host = match["host"].lower().removesuffix(".")
    if not host.startswith("[") and not is_ip_literal(host):
        host = read_domain(host) or ""
        if not is_valid_name(host):
            raise ValueError(_trouble(text))
    port = None if match["port"] is None else int(match["port"])
    if port is not None and not 1 <= port <= PORT_MAX:
        raise ValueError(_trouble(text))
    path = match["path"] or "/"
    if ".." in path.split("/"):
        raise ValueError(_trouble(text))
    return LinkRule(host=host, path_prefix=path, scheme=match["scheme"] or "https", port=port)


def link_host_text(rule: LinkRule) -> str:
    """Write a rule in the one spelling in which it is kept and shown."""
    scheme = "" if rule.scheme == "https" else f"{rule.scheme}://"
    port = "" if rule.port in (None, _DEFAULT_PORTS[rule.scheme]) else f":{rule.port}"
    path = "" if rule.path_prefix == "/" else rule.path_prefix
    return f"{scheme}{rule.host}{port}{path}"


def is_within(rule: LinkRule, wider: LinkRule) -> bool:
    """Say whether everything that a rule allows is allowed by another one."""
    if (rule.scheme, _port(rule)) != (wider.scheme, _port(wider)):
        return False
    below = rule.host.endswith(f".{wider.host}") and registrable_domain(wider.host) == wider.host
    # A host that is a registrable domain includes its subdomains, so it is wider than any of them.
    if rule.host != wider.host and not below:
        return False
    start = wider.path_prefix
    if start.endswith("/"):
        return rule.path_prefix.startswith(start)
    return rule.path_prefix == start or rule.path_prefix.startswith(f"{start}/")


def _port(rule: LinkRule) -> int:
    return rule.port if rule.port is not None else _DEFAULT_PORTS[rule.scheme]


def _trouble(text: str) -> str:
    return f"{text[:80]!r} is no host of links; write it as example.com or example.com/verify"
