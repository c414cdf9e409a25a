"""What checks of a sender ask of the DNS, and what they are told."""

from typing import Literal, NamedTuple, Protocol

RecordType = Literal["A", "AAAA", "MX", "PTR", "TXT"]


class DnsRecord(NamedTuple):
    """One record: an address, a name, or the bytes of a text; `preference` is that of an MX."""

    value: str
    text: bytes = b""
    preference: int = 0


class DnsLookup(Protocol):
    """Asks for the records of a name; aliases are followed, and no record is an empty list.

    Raises: UnavailableError where no answer came in time.
    """

    def __call__(self, name: str, type_: RecordType) -> list[DnsRecord]:
        """Ask for the records of one type."""
