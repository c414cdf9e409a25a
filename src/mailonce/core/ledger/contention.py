"""Group arrivals that write the same rows: where another process holds one, they wait together."""

from collections.abc import Hashable, Sequence

from mailonce.core.events.facts import kind_of
from mailonce.core.ledger.entry import Entry


def rows_of(entry: Entry) -> set[Hashable]:
    """Name the rows that others may hold: the keys that it claims and the facts that it joins."""
    rows: set[Hashable] = set() if entry.guard is None else {entry.guard[0]}
    rows.update(dead.key for dead in entry.dead)
    for item in entry.items:
        rows.update((item.key, *item.shared_rows(entry)))
    for candidate in entry.events:
        rows.add(candidate.keys.key)
        rows.update(alias.key for alias in candidate.keys.others)
        event = candidate.event
        if event.message_id:
            place = (entry.workspace, entry.account, event.message_id, event.recipient)
            rows.add((*place, kind_of(event)))
    return rows


def groups_of(entries: Sequence[Entry]) -> list[list[int]]:
    """Group entries, by their index in the list, so that no two groups share a row."""
    groups: list[list[int] | None] = []
    home: dict[Hashable, int] = {}
    for place, entry in enumerate(entries):
        rows = rows_of(entry)
        mine = len(groups)
        members = [place]
        for number in sorted({home[row] for row in rows if row in home}):
            joined = groups[number]
            assert joined is not None, "a row belongs to a group that still exists"
            members += joined
            groups[number] = None
            rows |= {row for one in joined for row in rows_of(entries[one])}
        groups.append(sorted(members))
        home.update(dict.fromkeys(rows, mine))
    return [group for group in groups if group is not None]
