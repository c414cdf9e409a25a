"""Inboxes: made, found, rotated and deleted; mail that none took, adopted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeVar

from mailonce.core.access import Caller, Scope
from mailonce.core.argument_error import ArgumentAccessError, ArgumentError
from mailonce.core.ids import private, public
from mailonce.core.inboxes.inbox import Inbox
from mailonce.core.inboxes.inbox_request import (
    CATCH_ALL,
    CHANCE_BYTES,
    InboxLimits,
    InboxRequest,
    address_for,
    fingerprint_of,
    inbox_for,
    request_keys,
)
from mailonce.core.inboxes.mail_items import MAIL_PREFIX
from mailonce.core.mail.address import read_address, read_domain
from mailonce.core.text import storable
from mailonce.errors import ClashError, MissingError, ParseError, RefusedError
from mailonce.inbox.read_queue import ReadQueue
from mailonce.manage.domains import Domains
from mailonce.manage.managing import Parts
from mailonce.queue.purge_inboxes import InboxPurge, PurgeReport
from mailonce.settings import InboxSettings
from mailonce.store.audit import name_object
from mailonce.store.configuration import locks
from mailonce.store.dialects.contract import Database, Tx
from mailonce.store.inboxes import inboxes, unmatched
from mailonce.store.inboxes.inboxes import AddressedInbox, RequestedInbox
from mailonce.store.inboxes.purge import InboxPlace, PurgeCounts, mark
from mailonce.store.inboxes.unmatched import AdoptedMail

BATCH_MAX = 1_000
# An inbox remembers so many addresses that it had.
OLD_ADDRESSES_MAX = 20
# Deleting goes on by itself after that; the caller need not wait.
DELETE_S = 10.0
NAME_CHARS_MAX = 400

K = TypeVar("K")
# By workspace, and id or address.
InboxLookups = ReadQueue[tuple[str, str], Inbox]
Candidate = TypeVar("Candidate", AddressedInbox, RequestedInbox)


class MadeInboxes(NamedTuple):
    """The inboxes of a request; `is_replay`: an earlier request with the same key made them."""

    inboxes: list[Inbox]
    is_replay: bool


@dataclass(frozen=True, slots=True)
class Inboxes:
    """The inboxes of every workspace."""

    parts: Parts
    settings: InboxSettings
    domains: Domains
    purge: InboxPurge
    lookups: InboxLookups

    async def make(
        self, caller: Caller, requests: Sequence[InboxRequest], *, key: str | None = None
    ) -> MadeInboxes:
        """Make inboxes, all or none; with a `key` a repeated request gets the same ones.

        A crash leaves all of them or none, and with a key the next try finds out which.
        Raises: ParseError, RefusedError, AccessError where an agent asks for what is an operator's,
        and ClashError where an address is taken or the key stands for other content.
        """
        if not 1 <= len(requests) <= BATCH_MAX:
            raise ParseError(f"`inboxes` has {len(requests)}; ask for 1 to {BATCH_MAX} at a time")
        keys = None if key is None else request_keys(key, len(requests))
        fingerprint = None if key is None else fingerprint_of(requests)
        most = self.settings.inboxes_max
        # Beside the writer: many who ask at once may exceed it by what they ask for.
        is_full = await self.parts.database.read(
            lambda tx: inboxes.is_full(tx, caller.workspace, inboxes_max=most, more=len(requests))
        )

        def work(tx: Tx) -> MadeInboxes:
            if keys is not None:
                # Of two with one key, the second waits for the first, and finds what it made.
                locks.take(tx, locks.number_of("inbox request", caller.workspace, keys[0]))
                known = self._living(tx, inboxes.of_request_keys(tx, caller.workspace, keys))
                if any(one.fingerprint != fingerprint for one in known.values()):
                    raise ClashError(
                        "this Idempotency-Key stands for another request; use a new key for it"
                    )
                if known:
                    again = [known[one].inbox for one in keys if one in known]
                    return MadeInboxes(again, is_replay=True)
            if is_full:
                raise RefusedError(f"a workspace has at most {most} inboxes; delete some, or wait")
            made = self._made(tx, caller, requests)
            if caller.scope is Scope.AGENT:
                self._check_catch_alls(tx, requests, made)
            self._living(tx, inboxes.lead(tx, [one.address for one in made]))
            taken = inboxes.insert_all(
                tx, made, request_keys=keys or [None] * len(made), fingerprint=fingerprint
            )
            if taken:
                raise ClashError(f"{taken[0]!r} leads to an inbox already; choose another `local`")
            name_object(", ".join(one.address for one in made))
            return MadeInboxes(made, is_replay=False)

        return await self.parts.database.write(work)

    async def find(self, caller: Caller, name: str) -> Inbox:
        """Find an inbox of the caller's workspace, by its id or an address that leads to it.

        Raises: MissingError, also where it is past its end.
        """
        inbox = await self.lookups.ask((caller.workspace, _spelling(name)))
        if inbox is None or inbox.has_ended(self.parts.clock.now_ms()):
            raise missing_inbox(name)
        return inbox

    async def find_for_expectation(self, caller: Caller, name: str) -> Inbox:
        """Find an inbox in which the caller may expect mail.

        Raises: MissingError, also where it is that of another agent.
        """
        inbox = await self.find(caller, name)
        if caller.scope is Scope.AGENT and not inbox.is_open_to(caller.key):
            raise missing_inbox(name)
        return inbox

    async def find_for_mail(self, caller: Caller, name: str) -> Inbox:
        """Find the inbox that takes mail for a name: its own, or the catch-all of its domain.

        Whatever reads or deletes an inbox must name it: a slip would mean the catch-all.
        Raises: MissingError.
        """
        address = read_address(name)
        catch_all = name if address is None else f"@{address.domain}"
        inboxes = await self.find_each(caller, [name, catch_all])
        inbox = inboxes[name] or inboxes[catch_all]
        if inbox is None:
            raise missing_inbox(name)
        return inbox

    async def find_each(self, caller: Caller, names: Sequence[str]) -> dict[str, Inbox | None]:
        """Find inboxes by ids or addresses; None where there is none, or it is past its end.

        Raises: ParseError where there are too many.
        """
        if not 1 <= len(names) <= BATCH_MAX:
            raise ParseError(f"{len(names)} inboxes are named; name 1 to {BATCH_MAX} at a time")
        wanted = {name: _spelling(name) for name in names}
        spellings = sorted(set(wanted.values()))
        known = await self.parts.database.read(
            lambda tx: inboxes.find(tx, caller.workspace, spellings)
        )
        now_ms = self.parts.clock.now_ms()
        lives = {
            spelling: inbox for spelling, inbox in known.items() if not inbox.has_ended(now_ms)
        }
        return {name: lives.get(spelling) for name, spelling in wanted.items()}

    async def rotate(
        self, caller: Caller, name: str, *, local: str | None = None, grace_s: int | None = None
    ) -> Inbox:
        """Give an inbox a new address; the old one takes mail for `grace_s` more, then refuses.

        Raises: MissingError, ParseError, ClashError where the address is taken, RefusedError.
        """
        inbox = await self.find(caller, name)
        if inbox.address.startswith("@"):
            raise RefusedError("a catch-all has every address of its domain; there is none to give")
        domain = inbox.address.rpartition("@")[2]
        address = address_for(local, domain, chance=self.parts.clock.chance(CHANCE_BYTES))
        now_ms = self.parts.clock.now_ms()
        wait_s = self.settings.grace_s if grace_s is None else grace_s

        def work(tx: Tx) -> Inbox:
            locks.take(tx, locks.number_of("inbox", inbox.id))
            known = inboxes.find(tx, caller.workspace, [inbox.id]).get(inbox.id)
            if known is None:
                raise missing_inbox(name)
            old = inboxes.old_addresses(tx, [inbox.id])
            ended = [one.address for one in old if one.until_ms <= now_ms]
            live = len(old) - len(ended)
            if live >= OLD_ADDRESSES_MAX:
                raise RefusedError(
                    f"{live} former addresses of this inbox still take mail; "
                    "rotate with a shorter `grace_s`, or later"
                )
            inboxes.forget_addresses(tx, ended[OLD_ADDRESSES_MAX - 1 - live :])
            if not inboxes.rotate(tx, known, address=address, until_ms=now_ms + wait_s * 1000):
                raise ClashError(f"{address!r} leads to an inbox already; choose another `local`")
            return inboxes.find(tx, caller.workspace, [inbox.id])[inbox.id]

        return await self.parts.database.write(work)

    async def delete(self, caller: Caller, doomed: Sequence[Inbox]) -> PurgeReport:
        """Delete inboxes with all that is in them; from now on nothing finds them."""
        name_object(", ".join(inbox.address for inbox in doomed))
        places = {InboxPlace(caller.workspace, inbox.id) for inbox in doomed}
        return await self.purge.delete(places, limit_s=DELETE_S)

    async def delete_message(self, caller: Caller, name: str, message: str) -> PurgeCounts:
        """Delete a message with its mail and attachments; a copy that comes later stays deleted.

        Raises: MissingError.
        """
        inbox = await self.find(caller, name)
        deleted = await self.purge.delete_message(inbox.id, message)
        if deleted is None:
            raise MissingError(f"there is no message {message[:80]!r} in this inbox")
        return deleted

    async def adopt(self, caller: Caller, mail_id: str, name: str) -> AdoptedMail:
        """Put a mail that no inbox took into one; asked for twice, it is put there once.

        Raises: MissingError, ClashError where another inbox has it, RefusedError.
        """
        inbox = await self.find(caller, name)
        key = private(MAIL_PREFIX, mail_id)
        now_ms = self.parts.clock.now_ms()

        def work(tx: Tx) -> AdoptedMail:
            held = unmatched.holder(tx, caller.workspace, key)
            if held is None:
                raise MissingError(f"there is no mail {mail_id[:80]!r}; see GET /v1/unmatched")
            lane = held.lane_in(inbox.id)
            if held.seq is not None:
                if held.inbox == inbox.id:
                    return AdoptedMail(inbox.id, held.seq, lane)
                raise ClashError(f"inbox {held.inbox} has adopted this mail already")
            adopted = unmatched.adopt(tx, key, inbox, lane=lane, now_ms=now_ms)
            if adopted is None:
                raise RefusedError(
                    "this inbox has no room for the mail now; delete some of its mail, or "
                    "adopt it into another"
                )
            return adopted

        return await self.parts.database.write(work)

    def _living(self, tx: Tx, candidates: Mapping[K, Candidate]) -> dict[K, Candidate]:
        """Give those that are not past their end.

        The others are deleted soon, and are marked here: they keep neither a key nor an address.
        """
        now_ms = self.parts.clock.now_ms()
        ended = {name: one.inbox for name, one in candidates.items() if one.inbox.has_ended(now_ms)}
        if ended:
            mark(tx, {InboxPlace(one.workspace, one.id) for one in ended.values()})
        return {name: one for name, one in candidates.items() if name not in ended}

    def _made(self, tx: Tx, caller: Caller, requests: Sequence[InboxRequest]) -> list[Inbox]:
        # A domain in which we make an address cannot be let go meanwhile.
        locks.share(tx, locks.DOMAINS)
        own = [one.domain for one in self.domains.in_order(tx, caller.workspace)]
        if not own:
            raise RefusedError(
                "this workspace has no mail domain; add one with POST /v1/domains, "
                "such as NAME.inbox.localhost for a first try"
            )
        clock = self.parts.clock
        limits = InboxLimits(
            ttl_s=self.settings.ttl_s,
            ttl_s_max=self.settings.ttl_s_max,
            permanent=self.settings.permanent,
            mails_max=self.settings.mails_max,
            bytes_max=self.settings.bytes_max,
        )
        now_ms = clock.now_ms()
        return [
            inbox_for(
                request,
                limits,
                id_=public("inb", clock.new_id()),
                workspace=caller.workspace,
                domain=_own(request.domain, own),
                chance=clock.chance(CHANCE_BYTES),
                now_ms=now_ms,
                agent=caller.key if caller.scope is Scope.AGENT else None,
            )
            for request in requests
        ]

    def _check_catch_alls(
        self, tx: Tx, requests: Sequence[InboxRequest], made: Sequence[Inbox]
    ) -> None:
        """Leave to a catch-all the addresses that it takes; an agent gets a random one of them."""
        if any(request.local == CATCH_ALL for request in requests):
            raise ArgumentAccessError(
                "a catch-all gets the mail of others; make it with an operator's key"
            )
        chosen = [
            "@" + one.address.partition("@")[2]
            for request, one in zip(requests, made, strict=True)
            if request.local is not None
        ]
        if self._living(tx, inboxes.lead(tx, chosen)):
            raise ArgumentAccessError(
                "a catch-all has this address; leave `local` out for a random one"
            )


def _own(wanted: str | None, own: Sequence[str]) -> str:
    """Give the domain of a request, in its one spelling."""
    if wanted is None:
        return own[0]
    domain = read_domain(wanted)
    if domain not in own:
        raise ArgumentError(f"`domain` is {wanted[:80]!r}; use one of GET /v1/domains, or add it")
    assert domain is not None
    return domain


def build_lookups(database: Database) -> InboxLookups:
    """Build what finds inboxes for all who ask at the same time."""

    def work(tx: Tx, *, names: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Inbox]:
        known: dict[tuple[str, str], Inbox] = {}
        for workspace in sorted({workspace for workspace, _ in names}):
            own = [name for owner, name in names if owner == workspace]
            by_name = inboxes.find(tx, workspace, own)
            known |= {(workspace, name): inbox for name, inbox in by_name.items()}
        return known

    async def load(names: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Inbox]:
        return await database.read(partial(work, names=names))

    return ReadQueue(load)


def _spelling(name: str) -> str:
    """Give an address in its one spelling; an id, and what is neither, stays as it is."""
    if name.startswith("*@"):
        name = name.removeprefix("*")
    if name.startswith("@"):
        domain = read_domain(name[1:])
        return name if domain is None else f"@{domain}"
    read = read_address(name) if "@" in name else None
    return storable(name, chars_max=NAME_CHARS_MAX) if read is None else str(read.untagged)


def missing_inbox(name: str) -> MissingError:
    """Say that there is no such inbox, or no more."""
    return MissingError(
        f"there is no inbox {name[:80]!r}; it was deleted, has expired, or see GET /v1/inboxes"
    )
