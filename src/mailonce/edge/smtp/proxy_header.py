"""The header of the PROXY protocol, versions 1 and 2: for whom a proxy connects.

Specified at https://www.haproxy.org/download/3.1/doc/proxy-protocol.txt. It is read from listed
peers alone, who must send it; from anybody else it would be a way to choose one's own address.
"""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

from mailonce.errors import ParseError

_V1_START = b"PROXY "
_V1_BYTES_MAX = 107
_V1 = re.compile(rb"PROXY (?:UNKNOWN(?: [^\r\n]*)?|TCP([46]) (\S+) (\S+) \d{1,5} \d{1,5})\r\n")
_V2_START = b"\r\n\r\n\0\r\nQUIT\n"
_V2_HEAD_BYTES = 16
# Addresses take 36 bytes; the rest are extensions, which we pass over.
_V2_BYTES_MAX = 4096
_TCP4, _TCP6 = 0x11, 0x21
_LOCAL, _PROXY = 0x20, 0x21


@dataclass(frozen=True, slots=True)
class ProxyHeader:
    """How long the header is, and the client's address; None where the proxy speaks for itself."""

    bytes: int
    address: str | None


def read_proxy_header(data: bytes) -> ProxyHeader | None:
    """Read a header at the start of `data`; None where more of it is to come.

    Raises: ParseError where this is no such header.
    """
    if data.startswith(_V2_START[: len(data)]):
        return _read_version_2(data)
    if data.startswith(_V1_START[: len(data)]):
        return _read_version_1(data)
    raise ParseError("this is no header of the PROXY protocol")


def _read_version_1(data: bytes) -> ProxyHeader | None:
    end = data.find(b"\n", 0, _V1_BYTES_MAX)
    if end < 0:
        if len(data) >= _V1_BYTES_MAX:
            raise ParseError("the PROXY line is too long")
        return None
    read = _V1.fullmatch(data, 0, end + 1)
    if read is None:
        raise ParseError("the PROXY line is malformed")
    if read[1] is None:
        return ProxyHeader(end + 1, None)
    try:
        addresses = [ip_address(read[number].decode("ascii")) for number in (2, 3)]
    except ValueError as error:
        raise ParseError("the PROXY line has no IP address") from error
    if any(one.version != int(read[1]) for one in addresses):
        raise ParseError("the PROXY line has an address of the other version")
    return ProxyHeader(end + 1, str(addresses[0]))


def _read_version_2(data: bytes) -> ProxyHeader | None:
    if len(data) < _V2_HEAD_BYTES:
        return None
    command, family = data[12], data[13]
    size = int.from_bytes(data[14:16], "big")
    if size > _V2_BYTES_MAX or command not in {_LOCAL, _PROXY}:
        raise ParseError("the PROXY header is malformed")
    end = _V2_HEAD_BYTES + size
    if len(data) < end:
        return None
    body = data[_V2_HEAD_BYTES:end]
    if command == _LOCAL:
        return ProxyHeader(end, None)
    if family == _TCP4 and size >= 12:
        return ProxyHeader(end, str(IPv4Address(body[:4])))
    if family == _TCP6 and size >= 36:
        return ProxyHeader(end, str(IPv6Address(body[:16])))
    raise ParseError("the PROXY header has no address of TCP")
