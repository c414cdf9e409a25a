"""The proofs that a source can demand of any provider: password, token, header, address."""

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from mailonce.core.arrivals.arrival import Arrival, query_token
from mailonce.core.arrivals.provider import Refused
from mailonce.core.arrivals.source import Source
from mailonce.core.one_line import setting_of_lines
from mailonce.core.signatures.hmac_signature import same_text
from mailonce.errors import ConfigError

BASIC = "Basic"
NO_PASSWORD = Refused("no password", BASIC)
WRONG_PASSWORD = Refused("wrong password", BASIC)
WRONG_TOKEN = Refused("wrong token", "Bearer")
WRONG_HEADER = Refused("wrong header")
WRONG_ADDRESS = Refused("address is not allowed")


def has_proof(source: Source) -> bool:
    """Say whether the source demands anything beside the provider's signature."""
    return bool(source.basic or source.tokens or source.headers or source.allow_ips)


def check(source: Source, arrival: Arrival) -> Refused | None:
    """Check every proof that the source demands; None where all hold."""
    if source.allow_ips and not is_within(arrival.peer, source.allow_ips):
        return WRONG_ADDRESS
    if source.basic:
        given = _basic(arrival)
        if not _any_same(given, source.basic):
            return NO_PASSWORD if given is None else WRONG_PASSWORD
    if source.tokens and not _any_same(_token(arrival), source.tokens):
        return WRONG_TOKEN
    if source.headers:
        for name, values in _by_name(source.headers).items():
            if not _any_same(arrival.headers.get(name), values):
                return WRONG_HEADER
    return None


def fault_of(source: Source) -> str | None:
    """Say in one sentence which proof is not of its form, or None."""
    setting = setting_of_lines(source)
    if setting is not None:
        return (
            f"`{setting}` has a line break, which a provider's never has; write each value on one "
            "line, and several as a list"
        )
    if not all(":" in pair for pair in source.basic):
        return "'basic' is user:password, with a colon between them"
    for header in source.headers:
        name, colon, _ = header.partition(":")
        if not colon or not name.strip() or " " in name.strip():
            return "'header' is 'Name: value', as the provider sends it"
    return None


def is_within(address: str | None, networks: Iterable[str]) -> bool:
    try:
        host = ip_address(address or "")
    except ValueError:
        return False
    return any(host in _network(network) for network in networks)


@lru_cache(maxsize=1024)
def _network(text: str) -> IPv4Network | IPv6Network:
    return ip_network(text, strict=False)


def check_network(network: str, setting: str = "allow_ips") -> None:
    """Check an entry of a list of networks.

    Raises: ConfigError where it is no address or network.
    """
    try:
        ip_network(network, strict=False)
    except ValueError as error:
        raise ConfigError(
            f"`{setting}` has {network!r}; write an address or a network such as 203.0.113.0/24"
        ) from error


def _any_same(given: str | None, wanted: Iterable[str]) -> bool:
    # All are compared, so that the time taken does not tell which one was close.
    return given is not None and sum(same_text(given, secret) for secret in wanted) > 0


def _basic(arrival: Arrival) -> str | None:
    kind, _, rest = arrival.headers.get("authorization", "").partition(" ")
    if kind.lower() != "basic":
        return None
    try:
        return b64decode(rest, validate=True).decode("utf-8", "replace")
    except (Base64Error, ValueError):
        return None


def _token(arrival: Arrival) -> str | None:
    if arrival.token is not None:
        return arrival.token
    kind, _, rest = arrival.headers.get("authorization", "").partition(" ")
    return rest if kind.lower() == "bearer" else query_token(arrival.query)


def _by_name(headers: Iterable[str]) -> dict[str, list[str]]:
    wanted: dict[str, list[str]] = {}
    for header in headers:
        name, _, value = header.partition(":")
        wanted.setdefault(name.strip().lower(), []).append(value.strip())
    return wanted
