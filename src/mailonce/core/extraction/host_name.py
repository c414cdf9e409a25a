"""What a host name is: an address in disguise, an internal name, a look-alike, a domain.

Browsers read `2130706433`, `0x7f.1` and `0177.0.0.1` as 127.0.0.1, where Python's `ipaddress` sees
names. The HTML standard's rule is simple: a host whose last label is a number is an address.
"""

import re
import unicodedata
from functools import lru_cache
from ipaddress import ip_address

from publicsuffixlist import PublicSuffixList

HOST_CHARS_MAX = 253

# Names that lead into a network of one's own, or to nowhere that others know.
_INTERNAL = frozenset(
    {
        "arpa", "corp", "domain", "home", "host", "internal", "intranet", "invalid", "lan", "local",
        "localdomain", "localhost", "onion", "private", "test", "workgroup",
    }
)  # fmt: skip
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


def is_valid_name(host: str) -> bool:
    """Say whether this is a host name in small ASCII letters."""
    if not 0 < len(host) <= HOST_CHARS_MAX:
        return False
    return all(_LABEL.fullmatch(label) for label in host.split("."))


def is_ip_literal(host: str) -> bool:
    """Say whether browsers would take this for an address, in any spelling."""
    if host.startswith("["):
        return True
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        return True
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_internal_name(host: str) -> bool:
    """Say whether a name means something only inside of a network."""
    labels = host.split(".")
    return len(labels) == 1 or labels[-1] in _INTERNAL


def is_public_suffix(host: str) -> bool:
    """Say whether anybody can have a name below this one, as with `co.uk` and `github.io`."""
    return _suffixes().privatesuffix(host) is None


def registrable_domain(host: str) -> str:
    """Give the part of a name that somebody registered; "" for a public suffix."""
    return _suffixes().privatesuffix(host) or ""


def has_mixed_scripts(host: str) -> bool:
    """Say whether a label mixes alphabets whose letters look alike."""
    for label in host.split("."):
        scripts = {_script(character) for character in label} - {""}
        if len(scripts) > 1:
            return True
    return False


def _script(character: str) -> str:
    if not character.isalpha():
        return ""
    return unicodedata.name(character, "").partition(" ")[0]


@lru_cache(maxsize=1)
def _suffixes() -> PublicSuffixList:
    """The public suffix list that its package brings along: the same for all, never fetched."""
    return PublicSuffixList()
