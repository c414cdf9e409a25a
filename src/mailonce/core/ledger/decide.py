"""Decide what a batch of arrivals does, given who owns its keys: the heart, and pure.

An event's own key, made of its identity, decides first. An alias (the provider's event id) only
leads to an event, and is bound to that event's identity and content: a provider that uses one id
for two events must not lose the second. So another event under a known alias is a conflict under
its own key, and takes effect where it is signed. The id by which another mailonce names an event
is bound to content alone, since two of its routes send one event under two delivery keys. The key
of an older recipe leads to an event until the present version has shown which event holds it.

Events are one noun, dead letters another; those that come later bring items of their own, whose one
key decides (`core/ledger/claim.py`). All of them write into the same rows and share one commit.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from mailonce.core.events.key import AliasKey, EventKeys, Fingerprint, Key, conflict_key
from mailonce.core.ledger.claim import (
    FIRST,
    STANDS,
    ClaimRow,
    ConflictWith,
    CopyOf,
    FirstClaim,
    Verdict,
    judge_claim,
)
from mailonce.core.ledger.effects import Effects, Routes
from mailonce.core.ledger.entry import (
    ArrivalOutcome,
    ArrivalRow,
    Candidate,
    ConflictRow,
    CopyRow,
    DeadRow,
    Entry,
    EntryOutcome,
    GuardBroken,
    Item,
    Rows,
    Status,
    TriedRow,
)

_NO_ROUTES: Routes = {}
# A member of an enum is slow to look up.
_ACCEPTED = Status.ACCEPTED


@dataclass(frozen=True, slots=True)
class Decision:
    """The rows to write in one transaction, and the answer to each arrival after its commit."""

    rows: Rows
    answers: list[EntryOutcome]


@dataclass(frozen=True, slots=True)
class AskAlso:
    """Conflicts came up: whether they are known, too, only these keys' owners can tell."""

    keys: list[Key]


def keys_of_entries(entries: Iterable[Entry]) -> list[Key]:
    """List every key whose owner `decide` has to know, sorted."""
    keys: set[Key] = set()
    for entry in entries:
        if entry.guard is not None:
            keys.add(entry.guard[0])
        if entry.dead:
            keys.update([dead.key for dead in entry.dead])
        if entry.items:
            keys.update([item.key for item in entry.items])
        for candidate in entry.events:
            own = candidate.keys
            keys.add(own.key)
            if own.aliases or own.previous is not None:
                keys.update([other.key for other in own.others])
    return sorted(keys)


def decide(
    entries: Sequence[Entry],
    owners: Mapping[Key, ClaimRow | None],
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
        self, owners: Mapping[Key, ClaimRow | None], received_ms: int, routes: Routes
    ) -> None:
        self._owners = dict(owners)
        self._rows = Rows()
        self._claims = self._rows.of(ClaimRow)
        self._arrivals = self._rows.of(ArrivalRow)
        # The place in its list of each letter that this batch makes.
        self._letters: dict[bytes, int] = {}
        self._effects = Effects(self._rows, received_ms, routes)
        self._answers: list[EntryOutcome] = []
        self.unasked: set[Key] = set()

    def take(self, entry: Entry) -> None:
        if entry.guard is not None and not self._pass_guard(entry, *entry.guard):
            self._answers.append(GuardBroken())
            return
        first = conflicts = by_content = 0
        places = entry.positions or range(len(entry.events))
        for position, candidate in zip(places, entry.events, strict=True):
            match self._judge(entry, position, candidate):
                case FirstClaim():
                    first += 1
                case ConflictWith():
                    conflicts += 1
                case CopyOf(recognised_by="content"):
                    by_content += 1
        new = first
        verdicts: tuple[Verdict, ...] = ()
        if entry.items:
            verdicts = self._judge_items(entry)
            first += sum(isinstance(one, FirstClaim) for one in verdicts)
            conflicts += sum(isinstance(one, ConflictWith) for one in verdicts)
        dead = self._give_up(entry) if entry.dead else 0
        status = _ACCEPTED if first else _status(entry, conflicts=conflicts, dead=dead)
        self._answers.append(
            ArrivalOutcome(status, len(entry.events), new, by_content, dead, verdicts)
        )
        # What a copy says is kept already, with the first that said it, and a dead letter keeps
        # what it holds.
        is_new = bool(first or conflicts or (dead and entry.events))
        if entry.is_arrival:
            keeps_body = is_new and not entry.items_keep_body
            self._arrivals.append(entry.row(status, new=new, keeps_body=keeps_body))

    def decision(self) -> Decision:
        self._effects.finish()
        return Decision(self._rows, self._answers)

    def _judge_items(self, entry: Entry) -> tuple[Verdict, ...]:
        if entry.is_whole:
            verdicts = tuple([self._verdict_on(item) for item in entry.items])
            if any(isinstance(one, ConflictWith) for one in verdicts):
                return verdicts
        return tuple([self._judge_item(entry, item) for item in entry.items])

    def _verdict_on(self, item: Item) -> Verdict:
        return judge_claim(item.id, item.fingerprint, self._owners.get(item.key))

    def _judge_item(self, entry: Entry, item: Item) -> Verdict:
        verdict = self._verdict_on(item)
        if verdict is FIRST:
            self._claim(item.key, item.fingerprint, item.id)
        if verdict is not STANDS:
            self._rows.add(item.rows(entry, verdict))
        return verdict

    def _give_up(self, entry: Entry) -> int:
        """Keep what cannot be read as dead letters, one for all its copies; say how many are new.

        Copies count as attempts, once for each arrival.
        """
        letters = self._rows.of(DeadRow)
        made = 0
        counted: set[bytes] = set()
        for dead in entry.dead:
            match judge_claim(dead.id, Fingerprint(dead.key), self._owners.get(dead.key)):
                case FirstClaim(stands=stands):
                    if not stands:
                        self._claim(dead.key, Fingerprint(dead.key), dead.id)
                        self._letters[dead.id] = len(letters)
                        letters.append(entry.dead_row(dead))
                    counted.add(dead.id)
                    made += 1
                case CopyOf(owner=owner) | ConflictWith(owner=owner):
                    if owner in counted:
                        continue
                    counted.add(owner)
                    place = self._letters.get(owner)
                    if place is None:
                        self._rows.of(TriedRow).append(TriedRow(owner, entry.id))
                    else:
                        letter = letters[place]
                        letters[place] = replace(letter, attempts=letter.attempts + 1)
        return made

    def _judge(self, entry: Entry, position: int, candidate: Candidate) -> Verdict:
        keys, name = candidate.keys, "key"
        known = self._owners.get(keys.key)
        if known is None:
            is_known_otherwise = bool(keys.aliases) or keys.previous is not None
            leads = self._leads(keys) if is_known_otherwise else ()
            if not leads:
                self._effect(entry, position, candidate, keys.key, conflict_with=None)
                if is_known_otherwise:
                    self._claim_all(keys.others, candidate.id)
                return FIRST
            alias, known = leads[0]
            name = alias.name
            if any(
                claim.owner != known.owner or claim.fingerprint != other.fingerprint
                for other, claim in leads
            ):
                reason = f"its {name} belongs to another event"
                return self._conflict(entry, position, candidate, known.owner, reason)
        elif (verdict := judge_claim(candidate.id, keys.fingerprint, known)) is STANDS:
            shared = [claim.owner for _, claim in self._leads(keys) if claim.owner != candidate.id]
            return ConflictWith(shared[0]) if shared else verdict
        elif isinstance(verdict, ConflictWith):
            # Its other keys stay free: they may be those of an event that is yet to come.
            reason = "the same key came with other content"
            return self._conflict(entry, position, candidate, known.owner, reason)
        if keys.aliases and all(self._owners.get(one.key) is None for one in keys.aliases):
            # It came under an event id that nobody had seen: the provider gave it a new one.
            name = "content"
        self._claim_all((AliasKey("key", keys.key, keys.fingerprint), *keys.others), known.owner)
        self._rows.of(CopyRow).append(CopyRow(entry.id, position, known.owner, name))
        return CopyOf(known.owner, name)

    def _leads(self, keys: EventKeys) -> list[tuple[AliasKey, ClaimRow]]:
        """Find the events to which the other keys lead."""
        aliases, previous = keys.aliases, keys.previous
        if previous is not None:
            holder = self._owners.get(previous.holder.key)
            if holder is None or holder.fingerprint == previous.holder.fingerprint:
                aliases = (*aliases, previous.alias)
        owner_of = self._owners.get
        return [(alias, owner) for alias in aliases if (owner := owner_of(alias.key)) is not None]

    def _conflict(
        self, entry: Entry, position: int, candidate: Candidate, owner: bytes, reason: str
    ) -> Verdict:
        """Keep other content under a known key, once; where it is signed it is true as well.

        A provider that revises says so in its record: then it is a new version, and no quarrel.
        Where only an alias was known, the event has a key of its own that nobody has claimed.
        """
        keys, takes_effect = candidate.keys, entry.signs_body or entry.revises
        key = keys.key
        if self._owners.get(key) is not None or not takes_effect:
            key = conflict_key(key, keys.fingerprint)
        conflict = ConflictWith(owner)
        if key not in self._owners:
            self.unasked.add(key)
            return conflict
        # The fingerprint is part of the key: whoever owns it said the same.
        verdict = judge_claim(candidate.id, keys.fingerprint, self._owners[key])
        if isinstance(verdict, CopyOf | ConflictWith):
            self._rows.of(CopyRow).append(CopyRow(entry.id, position, verdict.owner, "conflict"))
            verdict = CopyOf(verdict.owner, "conflict")
        if entry.revises:
            if verdict is FIRST:
                self._effect(entry, position, candidate, key, conflict_with=owner)
            return verdict
        if verdict is not FIRST:
            return conflict
        self._rows.of(ConflictRow).append(
            ConflictRow(
                candidate.id,
                entry.workspace,
                entry.source,
                keys.key,
                owner,
                entry.id,
                position,
                reason,
            )
        )
        if takes_effect:
            self._effect(entry, position, candidate, key, conflict_with=owner)
        else:
            self._claim(key, keys.fingerprint, candidate.id)
        return conflict

    def _effect(
        self,
        entry: Entry,
        position: int,
        candidate: Candidate,
        key: Key,
        *,
        conflict_with: bytes | None,
    ) -> None:
        """Let an event take effect under `key`, which becomes its own."""
        self._claim(key, candidate.keys.fingerprint, candidate.id)
        self._effects.add(entry, position, candidate, key, conflict_with=conflict_with)

    def _claim(self, key: Key, fingerprint: Fingerprint, owner: bytes) -> None:
        """Let a key that nobody holds lead to an owner."""
        row = self._owners[key] = ClaimRow(key, fingerprint, owner)
        self._claims.append(row)

    def _claim_all(self, keys: Iterable[AliasKey], owner: bytes) -> None:
        """Let those of the keys that nobody holds lead to an owner."""
        for one in keys:
            if self._owners.get(one.key) is None:
                self._claim(one.key, one.fingerprint, owner)

    def _pass_guard(self, entry: Entry, key: Key, fingerprint: Fingerprint) -> bool:
        owner = self._owners.get(key)
        if owner is None:
            self._claim(key, fingerprint, entry.id)
            return True
        return owner.fingerprint == fingerprint


def _status(entry: Entry, *, conflicts: int, dead: int) -> Status:
    """Say what an arrival is in which nothing was new."""
    if conflicts:
        return Status.CONFLICT
    if dead:
        return Status.DEAD_LETTER
    is_known = entry.events or entry.dead or entry.items
    return Status.DUPLICATE if is_known else Status.IGNORED
