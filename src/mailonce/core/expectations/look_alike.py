"""Whether the domain of a sender only looks like one that was named."""

from collections.abc import Iterable
from difflib import SequenceMatcher

from mailonce.core.extraction.host_name import registrable_domain

# Letters of other alphabets, and digits, that are read as these.
_READ_AS = str.maketrans("аеорсухіјѕԁԛһӏαορνι01345", "aeopcyxijsdqhiaopvioleas")  # noqa: RUF001
_READ_AS_ONE = (("rn", "m"), ("vv", "w"), ("cl", "d"), ("i", "l"))
# A shorter name is part of many.
NAME_CHARS_MIN = 5
ALIKE_MIN = 0.85


def look_alike(domain: str, named: Iterable[str]) -> str | None:
    """Give the named domain that this one looks like, though somebody else may have it.

    `named` are addresses or domains as an expectation names them. A domain that is registered with
    a named one is no look-alike.
    """
    domains = list(dict.fromkeys(one.rpartition("@")[2] for one in named))
    registered = registrable_domain(domain)
    if any(registered == registrable_domain(one) for one in domains):
        return None
    return next((one for one in domains if _is_alike(domain, one)), None)


def _is_alike(domain: str, named: str) -> bool:
    shown, meant = _as_read(domain), _as_read(named)
    owner = _as_read((registrable_domain(named) or named).partition(".")[0])
    is_part = any(len(one) >= NAME_CHARS_MIN and one in shown for one in (meant, owner))
    return is_part or SequenceMatcher(None, shown, meant, autojunk=False).ratio() >= ALIKE_MIN


def _as_read(domain: str) -> str:
    """Write a domain as a hasty reader takes it: without dots, and with letters that look alike."""
    text = ".".join(_decoded(label) for label in domain.lower().split("."))
    text = text.translate(_READ_AS)
    for letters, read_as in _READ_AS_ONE:
        text = text.replace(letters, read_as)
    return "".join(char for char in text if char.isalnum())


def _decoded(label: str) -> str:
    if not label.startswith("xn--"):
        return label
    try:
        return label.removeprefix("xn--").encode().decode("punycode")
    except UnicodeError:
        return label
