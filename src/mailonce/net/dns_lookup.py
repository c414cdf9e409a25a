"""DNS lookups for one mail at a time, bounded in number and time. Blocking: call it on a thread.

Answers are remembered as long as they say, for all mails together, and silence for a while: else
each mail would wait for the same silent server. Where several names in a row get no answer, it is
our own name servers that are silent, and nobody waits for them until a pause is over.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from mailonce.core.mail.dns_records import DnsLookup, DnsRecord, RecordType
from mailonce.errors import UnavailableError
from mailonce.net.mx import nameservers_of

# For all lookups of one mail together; the worker gives a mail thirty seconds.
TOTAL_S = 10.0
LOOKUP_S = 4.0
LOOKUPS_MAX = 60
RECORDS_MAX = 50
TEXT_BYTES_MAX = 4_096
CACHE_NAMES_MAX = 5_000
SILENT_S = 30.0
# That many different names in a row without an answer.
SILENT_NAMES = 8


class BoundedResolver:
    """Asks the machine's own name servers, or those of the settings."""

    def __init__(
        self,
        nameservers: Sequence[str] = (),
        *,
        total_s: float = TOTAL_S,
        lookup_s: float = LOOKUP_S,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._nameservers = nameservers_of(nameservers)
        self._total_s = total_s
        self._lookup_s = lookup_s
        self._now_s = now_s
        self._resolver: Any = None
        self._silent_until_s: dict[str, float] = {}
        self._in_a_row = 0
        self._paused_until_s = 0.0

    def for_one_mail(self) -> DnsLookup:
        """Give a lookup whose time begins now."""
        deadline_s = self._now_s() + self._total_s
        left = LOOKUPS_MAX

        def ask(name: str, type_: RecordType) -> list[DnsRecord]:
            nonlocal left
            left -= 1
            left_s = deadline_s - self._now_s()
            if left < 0 or left_s <= 0:
                raise UnavailableError("checking the sender takes too many lookups, or too long")
            return self._ask_unless_silent(name, type_, min(left_s, self._lookup_s))

        return ask

    def _ask_unless_silent(
        self, name: str, type_: RecordType, lifetime_s: float
    ) -> list[DnsRecord]:
        now_s = self._now_s()
        if max(self._silent_until_s.get(name, now_s), self._paused_until_s) > now_s:
            raise UnavailableError("its name servers, or ours, did not answer a moment ago")
        try:
            records = self._ask(name, type_, lifetime_s)
        except UnavailableError:
            self._note_silence(name)
            raise
        self._in_a_row = 0
        return records

    def _note_silence(self, name: str) -> None:
        until_s = self._now_s() + SILENT_S
        if len(self._silent_until_s) >= CACHE_NAMES_MAX:
            self._silent_until_s = {}
        self._silent_until_s[name] = until_s
        self._in_a_row += 1
        if self._in_a_row >= SILENT_NAMES:
            self._paused_until_s = until_s

    def _ask(self, name: str, type_: RecordType, lifetime_s: float) -> list[DnsRecord]:
        import dns.exception  # noqa: PLC0415 - only who checks senders pays for the import
        import dns.name  # noqa: PLC0415
        import dns.resolver  # noqa: PLC0415

        try:
            wanted = dns.name.from_text(name)
        except (dns.exception.DNSException, UnicodeError):
            # A name that cannot be has no records.
            return []
        try:
            answer = self._made().resolve(wanted, type_, lifetime=lifetime_s, search=False)
        except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
            return []
        except (dns.exception.DNSException, OSError) as error:
            raise UnavailableError(f"no name server answers ({type(error).__name__})") from error
        return [_record(row, type_) for row in list(answer)[:RECORDS_MAX]]

    def _made(self) -> Any:
        import dns.nameserver  # noqa: PLC0415
        import dns.resolver  # noqa: PLC0415

        if self._resolver is None:
            resolver = dns.resolver.Resolver(configure=not self._nameservers)
            if self._nameservers:
                resolver.nameservers = [
                    dns.nameserver.Do53Nameserver(host, port) for host, port in self._nameservers
                ]
            resolver.cache = dns.resolver.LRUCache(CACHE_NAMES_MAX)
            self._resolver = resolver
        return self._resolver


def _record(row: Any, type_: RecordType) -> DnsRecord:
    match type_:
        case "TXT":
            return DnsRecord("", text=b"".join(row.strings)[:TEXT_BYTES_MAX])
        case "MX":
            host = row.exchange.to_text(omit_final_dot=True)
            return DnsRecord(host, preference=int(row.preference))
        case "PTR":
            return DnsRecord(row.target.to_text(omit_final_dot=True))
        case _:
            return DnsRecord(row.address)
