"""MX records: which machines take the mail of a domain. Asked only where an operator wants it."""

from collections.abc import Sequence

from mailonce.errors import ConfigError, UnavailableError

TIMEOUT_S = 5.0
HOSTS_MAX = 20


class MxResolver:
    """Asks the machine's own name servers, or those of the settings."""

    def __init__(self, nameservers: Sequence[str] = ()) -> None:
        self._nameservers = nameservers_of(nameservers)

    async def hosts(self, domain: str) -> list[str]:
        """List the machines that take mail for a domain, the preferred one first; none: no record.

        Raises: UnavailableError where no name server answers in time.
        """
        # Only an operator who asks for it pays for the import.
        import dns.asyncresolver  # noqa: PLC0415
        import dns.exception  # noqa: PLC0415
        import dns.nameserver  # noqa: PLC0415
        import dns.resolver  # noqa: PLC0415

        try:
            resolver = dns.asyncresolver.Resolver(configure=not self._nameservers)
            if self._nameservers:
                resolver.nameservers = [
                    dns.nameserver.Do53Nameserver(host, port) for host, port in self._nameservers
                ]
            answer = await resolver.resolve(domain, "MX", lifetime=TIMEOUT_S)
        except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
            return []
        except (dns.exception.DNSException, OSError) as error:
            raise UnavailableError(f"no name server answers ({type(error).__name__})") from error
        records = sorted((int(row.preference), str(row.exchange)) for row in answer)
        return [host.rstrip(".").lower() for _, host in records[:HOSTS_MAX]]


def nameservers_of(texts: Sequence[str]) -> list[tuple[str, int]]:
    """Read the addresses of name servers, each with its port.

    Raises: ConfigError where one is no address.
    """
    return [_place(text) for text in texts]


def _place(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":") if text.count(":") == 1 else (text, "", "53")
    if not port.isdecimal():
        raise ConfigError(f"`net.nameservers` has {text!r}; write an address, or ADDRESS:PORT")
    return (host if colon else text), int(port)
