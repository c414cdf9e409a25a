"""Which dead letters can be retried, and why the others cannot."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.dead_letter_words import complete, is_deleted
from mailonce.edge.cli.removed_routes import removed_words

# Of more letters with the same reason, the first are named.
IDS_SHOWN = 3


class RetryChoice(NamedTuple):
    """The letters to retry, and a sentence for each reason why others are left out."""

    ids: list[str]
    left_out: list[str]


async def choose_retry(client: ApiSession, letters: Sequence[Any]) -> RetryChoice:
    """Leave out what would be refused: nothing of it can be sent or read as things are."""
    await complete(client, letters)
    reasons = [(str(one["id"]), _why_not(one)) for one in letters]
    left_out = [(id_, why) for id_, why in reasons if why is not None]
    return RetryChoice([id_ for id_, why in reasons if why is None], by_reason(left_out))


def by_reason(refused: Iterable[tuple[str, str]]) -> list[str]:
    """Say why letters are not retried: one sentence for all that have the same reason."""
    ids: dict[str, list[str]] = {}
    for id_, why in refused:
        ids.setdefault(why, []).append(id_)
    return [f"{_several(some)}: {why}" for why, some in ids.items()]


def _several(ids: Sequence[str]) -> str:
    if len(ids) == 1:
        return ids[0]
    named = ", ".join(ids[:IDS_SHOWN])
    more = f" and {len(ids) - IDS_SHOWN:,} more" if len(ids) > IDS_SHOWN else ""
    return f"{len(ids):,} dead letters cannot be retried ({named}{more})"


def _why_not(letter: Any) -> str | None:
    if is_deleted(letter):
        return "its mail was deleted; nothing is left to send"
    if letter.get("route_removed"):
        return removed_words(letter)
    if letter["kind"] == "mail":
        return "a mail that could not be read is not tried again; have the mail sent again"
    return None
