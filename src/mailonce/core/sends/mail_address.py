"""An address that a mail can be sent to: its grammar, and nothing about who lives there."""

import re

from mailonce.core.mail.domain_name import domain_in_ascii

# RFC 5321, sections 4.5.3.1.1 to 4.5.3.1.3, in bytes.
LOCAL_BYTES_MAX = 64
ADDRESS_BYTES_MAX = 254
LABEL_CHARS_MAX = 63

# RFC 5322's dot-atom, with letters of every script (RFC 6531).
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\u00a1-\ud7ff\uf900-\U000e01ef-]+"
_LOCAL = re.compile(rf"{_ATOM}(?:\.{_ATOM})*")
_QUOTED = re.compile(r'"(?:[ !#-\[\]-~]|\\[ -~])*"')
_LABEL = re.compile(r"(?!-)[A-Za-z0-9\u00a1-\ud7ff\uf900-\U000e01ef_-]{1,63}(?<!-)")
# What most addresses look like; one that does not may be right all the same.
_PLAIN = re.compile(
    r"[a-z0-9_+-]{1,30}(?:\.[a-z0-9_+-]{1,30})?@(?:[a-z0-9]{1,60}\.){1,2}[a-z]{2,20}"
)


def trouble_of_address(address: str) -> str | None:
    """Say, as the end of a sentence, what is wrong with an address; None where nothing is."""
    if _PLAIN.fullmatch(address) is not None:
        return None
    local, at, domain = address.rpartition("@")
    if not at or not local or not domain:
        return "which is no address; write it as name@example.com"
    try:
        if len(address.encode()) > ADDRESS_BYTES_MAX or len(local.encode()) > LOCAL_BYTES_MAX:
            return f"which is too long: {LOCAL_BYTES_MAX} bytes before the @ and 254 in all"
    except UnicodeEncodeError:
        return "which has half of a character; correct it"
    if not address.isprintable():
        return "which has a character that cannot be seen; take it out"
    if _LOCAL.fullmatch(local) is None and _QUOTED.fullmatch(local) is None:
        return "whose part before the @ has a character that mail does not allow; correct it"
    labels = domain.removesuffix(".").split(".")
    if domain_in_ascii(domain) is None or any(_LABEL.fullmatch(one) is None for one in labels):
        return "whose domain is none; write it as name@example.com"
    return None
