"""Decide what a batch of arrivals does, given who owns its keys: the heart, and pure.

An event's own key, made of its identity, decides first. An alias (the provider's event id) only
leads to an event, and is bound to that event's identity and content: a provider that uses one id
for two events must not lose the second. So another event under a known alias is a conflict under
its own key, and takes effect where it is signed. The id by which another mailonce names an event
is bound to content alone, since two of its routes send one event under two delivery keys. The key
of an older recipe leads to an event until the present version has told which event holds it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from mailonce.core.effects import Effects, Routes
from mailonce.core.entry import (
    Answer,
    Candidate,
    ClaimRow,
    ConflictRow,
    CopyRow,
    Entry,
    GuardBroken,
    Owner,
    Rows,
    Status,
    TriedRow,
)
from mailonce.core.key import AliasKey, Fingerprint, Key, Keys, conflict_key

_NO_ROUTES: Routes = {}


@dataclass(frozen=True, slots=True)
class Decision:
    """The rows to write in one transaction, and what each arrival hears after its commit."""

    rows: Rows
    answers: list[Answer | GuardBroken]


@dataclass(frozen=True, slots=True)
class AskAlso:
    """Conflicts came up: whether they are known, too, only these keys' owners can tell."""

    keys: list[Key]


class _Outcome(Enum):
    FIRST = 1
    STOOD = 2
    COPY = 3
    # A copy under an event id that nobody had seen: the provider gave it a new one.
    BY_CONTENT = 4
    CONFLICT = 5


def keys_of_entries(entries: Iterable[Entry]) -> list[Key]:
    """List every key whose owner `decide` has to know, sorted."""
    keys: set[Key] = set()
    for entry in entries:
        if entry.guard is not None:
            keys.add(entry.guard[0])
        if entry.dead:
            keys.update([dead.key for dead in entry.dead])
        for candidate in entry.events:
            own = candidate.keys
            keys.add(own.key)
            if own.aliases or own.previous is not None:
                keys.update([other.key for other in own.others])
    return sorted(keys)


def decide(
    entries: Sequence[Entry],
    owners: Mapping[Key, Owner | None],
    *,
    received_ms: int,
    routes: Routes = _NO_ROUTES,
) -> Decision | AskAlso:
    """Judge each event of each entry, in arrival order, and say what must be written.

    An event is first if none of its keys is owned. Its own key decides: owned with the same
    content it is a copy, with other content a conflict. Where only an alias is owned, it is a
    copy if the alias is bound to what it says; an alias that is bound to another event makes it a
    conflict. The keys that a copy brings become aliases of its owner. Copies inside the batch are
    judged as if the earlier one had been written already. An owner that is the event itself means
    that an earlier try of this very batch, whose answer was lost, did commit: there is nothing to
    write, and the answer is the same.
    """
    judge = _Judge(owners, received_ms, routes)
    for entry in entries:
        judge.take(entry)
    if judge.unasked:
        return AskAlso(sorted(judge.unasked))
    return judge.decision()


class _Judge:
    """The state of one decision; lives as long as the call."""

    def __init__(
        self, owners: Mapping[Key, Owner | None], received_ms: int, routes: Routes
    ) -> None:
        self._owners = dict(owners)
        self._claims: list[ClaimRow] = []
        # The place in `dead` of each letter that this batch makes.
        self._letters: dict[bytes, int] = {}
        self._rows = Rows([], [], [], [], [], [], [], [], [], [])
        self._effects = Effects(self._rows, received_ms, routes)
        self._answers: list[Answer | GuardBroken] = []
        self.unasked: set[Key] = set()

    def take(self, entry: Entry) -> None:
        if entry.guard is not None and not self._pass_guard(entry, *entry.guard):
            self._answers.append(GuardBroken())
            return
        first = conflicts = by_content = 0
        for position, candidate in enumerate(entry.events):
            match self._judge(entry, position, candidate):
                case _Outcome.FIRST | _Outcome.STOOD:
                    first += 1
                case _Outcome.CONFLICT:
                    conflicts += 1
                case _Outcome.BY_CONTENT:
                    by_content += 1
                case _Outcome.COPY:
                    pass
        dead = self._bury(entry) if entry.dead else 0
        status = _status(entry, first=first, conflicts=conflicts, dead=dead)
        self._answers.append(Answer(status, len(entry.events), first, by_content, dead))
        # What a copy says is kept already, with the first that said it, and a dead letter keeps
        # what it holds.
        news = bool(first or conflicts or (dead and entry.events))
        self._rows.arrivals.append(entry.row(status, new=first, keeps_body=news))

    def _bury(self, entry: Entry) -> int:
        """Keep what cannot be read as dead letters, one for all its copies; say how many are new.

        Copies count as attempts, once for each arrival.
        """
        rows = self._rows
        made = 0
        counted: set[bytes] = set()
        for dead in entry.dead:
            owner = self._owners.get(dead.key)
            if owner is None:
                key = AliasKey("dead", dead.key, Fingerprint(dead.key))
                self._claim([key], Owner(key.fingerprint, dead.id))
                self._letters[dead.id] = len(rows.dead)
                rows.dead.append(entry.dead_row(dead))
            if owner is None or owner.id == dead.id:
                counted.add(dead.id)
                made += 1
            elif owner.id not in counted:
                counted.add(owner.id)
                place = self._letters.get(owner.id)
                if place is None:
                    rows.tried.append(TriedRow(owner.id, entry.id))
                else:
                    letter = rows.dead[place]
                    rows.dead[place] = letter._replace(attempts=letter.attempts + 1)
        return made

    def decision(self) -> Decision:
        rows = self._rows
        rows.claims = sorted(self._claims)
        rows.said.sort(key=lambda row: row[:5])
        rows.owed.sort(key=lambda row: row.key)
        rows.tried.sort()
        rows.counts = self._effects.counts()
        return Decision(rows, self._answers)

    def _judge(self, entry: Entry, position: int, candidate: Candidate) -> _Outcome:
        keys = candidate.keys
        owner = self._owners.get(keys.key)
        name = "key"
        if owner is None:
            is_known_otherwise = bool(keys.aliases) or keys.previous is not None
            leads = self._leads(keys) if is_known_otherwise else ()
            if not leads:
                owner = self._effect(entry, position, candidate, keys.key, conflict_with=None)
                if is_known_otherwise:
                    self._claim(keys.others, owner)
                return _Outcome.FIRST
            alias, owner = leads[0]
            if any(
                found.id != owner.id or found.fingerprint != other.fingerprint
                for other, found in leads
            ):
                reason = f"its {alias.name} belongs to another event"
                return self._conflict(entry, position, candidate, owner, reason)
            name = alias.name
        elif owner.id == candidate.id:
            shared = any(found.id != owner.id for _, found in self._leads(keys))
            return _Outcome.CONFLICT if shared else _Outcome.STOOD
        elif owner.fingerprint != keys.fingerprint:
            # Its other keys stay free: they may be those of an event that is yet to come.
            reason = "the same key came with other content"
            return self._conflict(entry, position, candidate, owner, reason)
        by_content = bool(keys.aliases) and all(
            self._owners.get(alias.key) is None for alias in keys.aliases
        )
        self._claim((AliasKey("key", keys.key, keys.fingerprint), *keys.others), owner)
        recognised_by = "content" if by_content else name
        self._rows.copies.append(CopyRow(entry.id, position, owner.id, recognised_by))
        return _Outcome.BY_CONTENT if by_content else _Outcome.COPY

    def _leads(self, keys: Keys) -> list[tuple[AliasKey, Owner]]:
        """Find the events to which the other keys lead."""
        aliases, previous = keys.aliases, keys.previous
        if previous is not None:
            holder = self._owners.get(previous.holder.key)
            if holder is None or holder.fingerprint == previous.holder.fingerprint:
                aliases = (*aliases, previous.alias)
        found = [(alias, self._owners.get(alias.key)) for alias in aliases]
        return [(alias, owner) for alias, owner in found if owner is not None]

    def _conflict(
        self, entry: Entry, position: int, candidate: Candidate, owner: Owner, reason: str
    ) -> _Outcome:
        """Keep other content under a known key, once; where it is signed it is true as well.

        A provider that revises says so in its record: then it is a new version, and no quarrel.
        Where only an alias was known, the event has a key of its own that nobody has claimed.
        """
        keys, takes_effect = candidate.keys, entry.signs_body or entry.revises
        key = keys.key
        if self._owners.get(key) is not None or not takes_effect:
            key = conflict_key(key, keys.fingerprint)
        if key not in self._owners:
            self.unasked.add(key)
            return _Outcome.CONFLICT
        known = self._owners[key]
        if known is not None and known.id == candidate.id:
            return _Outcome.STOOD if entry.revises else _Outcome.CONFLICT
        if known is not None:
            self._rows.copies.append(CopyRow(entry.id, position, known.id, "conflict"))
            return _Outcome.COPY if entry.revises else _Outcome.CONFLICT
        if entry.revises:
            self._effect(entry, position, candidate, key, conflict_with=owner.id)
            return _Outcome.FIRST
        self._rows.conflicts.append(
            ConflictRow(
                candidate.id,
                entry.workspace,
                entry.source,
                keys.key,
                owner.id,
                entry.id,
                position,
                reason,
            )
        )
        if takes_effect:
            self._effect(entry, position, candidate, key, conflict_with=owner.id)
        else:
            self._claim(
                [AliasKey("conflict", key, keys.fingerprint)],
                Owner(keys.fingerprint, candidate.id),
            )
        return _Outcome.CONFLICT

    def _effect(
        self,
        entry: Entry,
        position: int,
        candidate: Candidate,
        key: Key,
        *,
        conflict_with: bytes | None,
    ) -> Owner:
        """Let an event take effect under `key`, which becomes its own."""
        owner = self._owners[key] = Owner(candidate.keys.fingerprint, candidate.id)
        self._effects.add(entry, position, candidate, key, conflict_with=conflict_with)
        return owner

    def _claim(self, keys: Iterable[AliasKey], owner: Owner) -> None:
        """Let keys that nobody holds lead to an owner."""
        for _, key, fingerprint in keys:
            if self._owners.get(key) is None:
                self._owners[key] = Owner(fingerprint, owner.id)
                self._claims.append(ClaimRow(key, fingerprint, owner.id))

    def _pass_guard(self, entry: Entry, key: Key, fingerprint: Fingerprint) -> bool:
        owner = self._owners.get(key)
        if owner is None:
            self._claim([AliasKey("guard", key, fingerprint)], Owner(fingerprint, entry.id))
            return True
        return owner.fingerprint == fingerprint


def _status(entry: Entry, *, first: int, conflicts: int, dead: int) -> Status:
    if first:
        return Status.ACCEPTED
    if conflicts:
        return Status.CONFLICT
    if dead:
        return Status.DEAD_LETTER
    return Status.DUPLICATE if entry.events or entry.dead else Status.IGNORED
