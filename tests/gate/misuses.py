"""What a handler may do wrong with the gate's transaction, and what must have come of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from mailonce.gate.sql.commit_guard import CONSTRAINT
from tests.gate.places import Place

# What an error must say: the remedy, in our words or as the name of the constraint. (SQLite has one
# writer: whoever writes beside the handler finds it locked.)
REMEDY = ("remove", "write through", "savepoint", CONSTRAINT, "autocommit", "locked", "`await`")
BOTH = ("sqlite", "postgresql")


@dataclass(frozen=True)
class Misuse:
    """One way to end the transaction, as the steps of a handler between two orders."""

    name: str
    act: Callable[[Any], Any]
    # The framework or the driver refuses by itself, in its own words.
    in_other_words: bool = False


def name_of(one: Any) -> str:
    """Name a part of a case, for the report."""
    named: str = one if isinstance(one, str) else getattr(one, "name", None) or one.__name__
    return named


def raw(*words: str) -> list[Misuse]:
    """Send each as text, by a driver's connection."""
    return [Misuse(word, _sending(word)) for word in words]


def sa_raw(*words: str) -> list[Misuse]:
    """Send each as text, by SQLAlchemy."""
    return [Misuse(word, _sending(text(word))) for word in words]


def _sending(statement: Any) -> Callable[[Any], Any]:
    return lambda tx: tx.execute(statement)


def judge(place: Place, misuse: Misuse, outcomes: list[tuple[str, str]], *, swallow: bool) -> None:
    """See that nothing was done, each time with an error that says what to change.

    A refusal that changed nothing may be swallowed: then all of it was done, together and once.
    """
    if swallow and outcomes[0][0] == "201":
        assert [kind for kind, _ in outcomes] == ["201"] * 3
        assert (place.orders(), place.records()) in ((1, 1), (2, 1), (3, 1))
        return
    assert (place.orders(), place.records()) == (0, 0), outcomes
    for kind, words in outcomes:
        assert kind == "raised" or int(kind) >= 500, outcomes
        if not misuse.in_other_words and not swallow:
            assert any(word in words for word in REMEDY), outcomes
