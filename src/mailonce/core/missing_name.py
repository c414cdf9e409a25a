"""A name that nothing has: refused with the names that there are."""

from collections.abc import Iterable

from mailonce.errors import MissingError

NAMES_MAX = 10


def missing_name(noun: str, given: str, known: Iterable[str] = ()) -> MissingError:
    """Say that no source, route or sender has this name, and which ones there are."""
    names = sorted(known)
    more = ", …" if len(names) > NAMES_MAX else ""
    listed = f", which has {', '.join(names[:NAMES_MAX])}{more}" if names else ""
    return MissingError(f"there is no {noun} {given[:80]!r}; see GET /v1/{noun}s{listed}")
