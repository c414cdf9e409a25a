"""The guard against being made to call inside our own network (SSRF). Pure.

It judges twice: the URL, before anything happens, and each address that a name resolved to, just
before a socket is made for it. A name that answers differently the second time gains nothing.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from urllib.parse import urlsplit

from mailonce.errors import RefusedError

URL_CHARS_MAX = 2_048
PORTS = {"http": 80, "https": 443}
MAIL_PORTS = frozenset({25, 465, 587})

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


def _networks(written: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[Network, ...]]:
    return {fault: tuple(map(ip_network, texts)) for fault, texts in written.items()}


# Only plain characters: a parser that drops a tab or decodes an escape reads another host than
# the next parser does. Names in other scripts are written as xn--.
_PLAIN_URL = re.compile(r"[!-\[\]-~]+")
_NETLOC = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_HOST = re.compile(r"[A-Za-z0-9._-]+|\[?[0-9A-Fa-f:.]+\]?")
_NUMBER = re.compile(r"(0[xX][0-9A-Fa-f]*|[0-9]+)")

# Python's own idea of "global" changes with its version: 3.11.7 takes 192.0.0.0/24, 192.88.99.0/24
# and 3fff::/20 for public. So we keep the special-purpose registries ourselves.
# https://www.iana.org/assignments/iana-ipv4-special-registry
_SPECIAL_4 = _networks(
    {
        "unspecified": ("0.0.0.0/8",),
        "private": ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"),
        "shared": ("100.64.0.0/10",),
        "loopback": ("127.0.0.0/8",),
        "link-local": ("169.254.0.0/16",),
        "multicast": ("224.0.0.0/4",),
        # Protocols, DNS blackholes, tunnels' relays, benchmarks, documentation, the future.
        "reserved": (
            "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24",
            "192.88.99.0/24", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24",
            "203.0.113.0/24", "240.0.0.0/4",
        ),
    }
)  # fmt: skip
# https://www.iana.org/assignments/iana-ipv6-special-registry
_SPECIAL_6 = _networks(
    {
        "unspecified": ("::/128",),
        "loopback": ("::1/128",),
        "link-local": ("fe80::/10",),
        "site-local": ("fec0::/10",),
        "private": ("fc00::/7",),
        "multicast": ("ff00::/8",),
        "local NAT64": ("64:ff9b:1::/48",),
        "tunnelled": ("2001::/32",),
        # Discarded, protocols, documentation, DNS blackholes.
        "reserved": (
            "100::/64", "100:0:0:1::/64", "2001::/23", "2001:db8::/32", "2620:4f:8000::/48",
            "3fff::/20", "5f00::/16",
        ),
    }
)  # fmt: skip
# What lies outside is not given to anybody yet, or has a meaning of its own.
_UNICAST_6 = IPv6Network("2000::/3")
# Ranges of IPv6 that carry an IPv4 address which a gateway may unpack: NAT64, 6to4, the
# compatible, the mapped and the translated form.
_CARRIERS = (
    (IPv6Network("64:ff9b::/96"), 0),
    (IPv6Network("2002::/16"), 80),
    (IPv6Network("::/96"), 0),
    (IPv6Network("::ffff:0:0/96"), 0),
    (IPv6Network("::ffff:0:0:0/96"), 0),
)
# ISATAP carries one in the lower half, under any prefix: …:0:5efe:a.b.c.d, with or without the
# bit that says "global".
_ISATAP, _ISATAP_MASK = 0x0000_5EFE, 0xFCFF_FFFF


@dataclass(frozen=True, slots=True)
class Target:
    """A URL that may be called. `allowed`: the operator named this host, so any address will do."""

    url: str
    scheme: str
    host: str
    port: int
    allowed: bool


def check_url(url: str, allow_hosts: Iterable[str] = ()) -> Target:
    """Read a URL and refuse what may not be called, whatever its spelling.

    `allow_hosts` has names and addresses, each with or without a port.

    Raises: RefusedError, with the reason and, where there is one, the way out.
    """
    if len(url) > URL_CHARS_MAX or not _PLAIN_URL.fullmatch(url):
        raise RefusedError("the URL is too long or has characters that must be escaped")
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise RefusedError(f"the URL cannot be read: {error}") from error
    if parts.scheme not in PORTS:
        raise RefusedError("the URL must begin with https:// or http://")
    match = _NETLOC.fullmatch(parts.netloc)
    if match is None:
        raise RefusedError("the URL must name a plain host: no user, no password, no escapes")
    host = _normal(match[1])
    port = int(match[2] or PORTS[parts.scheme])
    if not 0 < port < 65_536:
        raise RefusedError(f"the URL has the port {port}, which does not exist")
    if is_allowed(host, port, allow_hosts):
        return Target(url, parts.scheme, host, port, allowed=True)
    if port < 1024 and port not in PORTS.values():
        raise RefusedError(f"port {port} belongs to another protocol than HTTP")
    _check_public(host)
    return Target(url, parts.scheme, host, port, allowed=False)


def check_mail_server(host: str, port: int, allow_hosts: Iterable[str] = ()) -> Target:
    """Judge a mail server, given by name or address, as a URL is judged.

    Raises: RefusedError, with the reason and, where there is one, the way out.
    """
    if not 0 < port < 65_536:
        raise RefusedError(f"the mail server has the port {port}, which does not exist")
    if len(host) > URL_CHARS_MAX or not _HOST.fullmatch(host):
        raise RefusedError("the mail server must be a plain name or an address")
    name = _normal(host)
    if is_allowed(name, port, allow_hosts):
        return Target("", "smtp", name, port, allowed=True)
    if port < 1024 and port not in MAIL_PORTS:
        raise RefusedError(f"port {port} belongs to another protocol than SMTP")
    _check_public(name)
    return Target("", "smtp", name, port, allowed=False)


def is_allowed(host: str, port: int, allow_hosts: Iterable[str]) -> bool:
    """Say whether the operator named this host, or this host with this port."""
    for entry in allow_hosts:
        match = _NETLOC.fullmatch(entry)
        if match is None:
            # A bare IPv6 address has no brackets to tell its last group from a port.
            name, only_port = _normal(entry), None
        else:
            name, only_port = _normal(match[1]), match[2]
        if name == host and (only_port is None or int(only_port) == port):
            return True
    return False


def fault_of(address: Address) -> str | None:
    """Say in one word why an address is not a public one, or None where it is.

    An IPv6 address that carries an IPv4 one is judged by both.
    """
    if isinstance(address, IPv4Address):
        return _special(address, _SPECIAL_4)
    fault = _special(address, _SPECIAL_6)
    if fault is not None:
        return fault
    carried = _carried(address)
    if carried is not None:
        inner = _special(carried, _SPECIAL_4)
        if inner is not None:
            return inner
    is_carrier = any(address in network for network, _ in _CARRIERS)
    return None if is_carrier or address in _UNICAST_6 else "reserved"


def literal_of(host: str) -> Address | None:
    """Read a host as the address that any resolver might take it for, or None for a name.

    The C library's old notations count: 127.1, 0177.0.0.1, 0x7f000001, 2130706433.
    """
    if ":" in host:
        try:
            return ip_address(host)
        except ValueError as error:
            raise RefusedError(f"the host {host!r} is not an address") from error
    parts = host.split(".")
    if not _NUMBER.fullmatch(parts[-1]):
        return None
    numbers = [_number(part) for part in parts]
    # The last part fills all the bytes that the parts before it leave.
    last_max = 256 ** (5 - len(parts)) if len(parts) <= 4 else 0
    if any(number is None for number in numbers):
        raise RefusedError(f"the host {host!r} is neither a name nor an address")
    *leading, last = [number for number in numbers if number is not None]
    if last >= last_max or any(number > 255 for number in leading):
        raise RefusedError(f"the host {host!r} is neither a name nor an address")
    value = last
    for position, number in enumerate(leading):
        value += number << (8 * (3 - position))
    return IPv4Address(value)


def refusal(host: str, fault: str) -> RefusedError:
    """Say that a host is out of bounds, and how an operator would let it in."""
    return RefusedError(
        f"{host} is not a public address ({fault}); add it to net.allow_hosts if you mean it"
    )


def _normal(host: str) -> str:
    """Write a host in one way: lower case, no brackets, no final dot, literals in full."""
    name = host.strip("[]").lower().rstrip(".")
    try:
        literal = literal_of(name)
    except RefusedError:
        return name
    return name if literal is None else str(literal)


def _check_public(host: str) -> None:
    literal = literal_of(host)
    fault = _fault_of_name(host) if literal is None else fault_of(literal)
    if fault is not None:
        raise refusal(host, fault)


def _fault_of_name(host: str) -> str | None:
    if not host or host.startswith(".") or ".." in host:
        return "no host"
    # Never handed to a resolver: some answer for it from a file, some from the network.
    return "loopback" if host == "localhost" or host.endswith(".localhost") else None


def _special(address: Address, faults: Mapping[str, tuple[Network, ...]]) -> str | None:
    for fault, networks in faults.items():
        if any(address in network for network in networks):
            return fault
    return None


def _carried(address: IPv6Address) -> IPv4Address | None:
    for network, shift in _CARRIERS:
        if address in network:
            return IPv4Address((int(address) >> shift) & 0xFFFF_FFFF)
    if (int(address) >> 32) & _ISATAP_MASK == _ISATAP:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return None


def _number(text: str) -> int | None:
    if not _NUMBER.fullmatch(text) or len(text) > 20:
        return None
    if text[:2] in {"0x", "0X"}:
        return int(text[2:] or "0", 16)
    try:
        return int(text, 8) if len(text) > 1 and text[0] == "0" else int(text)
    except ValueError:
        return None
