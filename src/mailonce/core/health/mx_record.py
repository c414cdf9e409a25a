"""Judge the MX records of a mail domain: whether its mail reaches us, and what to enter."""

from collections.abc import Sequence

from mailonce.core.health.checkup import Finding, Level


def of_mx(domain: str, hosts: Sequence[str] | None, *, hostname: str) -> Finding:
    """Judge the machines that take a domain's mail; None where no name server answered.

    `hostname` is the name of our own SMTP door, empty where the settings have none.
    """
    place = f"domain {domain}"
    if domain.endswith(".localhost"):
        return Finding(place, Level.OK, "is for this machine alone and needs no MX record")
    wanted = hostname or "the name of the machine with the SMTP door"
    enter = f"enter at your DNS provider: {domain}. MX 10 {wanted}"
    if hosts is None:
        return Finding(place, Level.WARN, "no name server answered", "look again later")
    if not hosts:
        return Finding(place, Level.FAIL, "has no MX record, so no mail comes", enter)
    names = ", ".join(hosts)
    if not hostname:
        advice = "set smtp.hostname to the name of the SMTP door, to have this compared"
        return Finding(place, Level.WARN, f"its mail goes to {names}", advice)
    if hostname.rstrip(".").lower() not in hosts:
        return Finding(place, Level.FAIL, f"its mail goes to {names}, not to us", enter)
    return Finding(place, Level.OK, f"its mail goes to {names}")
