"""The known name that somebody meant, as far as that can be guessed."""

from collections.abc import Iterable
from difflib import get_close_matches

# Whoever wrote more meant none of ours, and comparing it would take long.
GIVEN_CHARS_MAX = 100


def nearest_name(given: str, known: Iterable[str]) -> str | None:
    """Find the known name that is most like `given`; None where none is much like it."""
    if len(given) > GIVEN_CHARS_MAX:
        return None
    names = {name.lower(): name for name in sorted(known)}
    close = get_close_matches(given.lower(), names, n=1)
    return names[close[0]] if close else None


def did_you_mean(given: str, known: Iterable[str], *, otherwise: str) -> str:
    """Ask whether the nearest name was meant; `otherwise` is the advice where there is none."""
    meant = nearest_name(given, known)
    return otherwise if meant is None else f"did you mean {meant}?"
