"""Sources: the accounts of providers that may send to us."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mailonce import providers
from mailonce.core.access import Caller
from mailonce.core.arrivals.provider import Provider
from mailonce.core.arrivals.source import (
    Source,
    fault_of_empty,
    fault_of_flag,
    troubles_of_size,
)
from mailonce.core.ids import public
from mailonce.core.missing_name import missing_name
from mailonce.core.nearest_name import did_you_mean
from mailonce.core.record_origin import API, NOT_IN_FILE, off_when_put, origin_when_put
from mailonce.core.signatures import proof
from mailonce.core.signatures.sealing import UNREADABLE
from mailonce.errors import ConfigError
from mailonce.manage.managing import Change, Parts, taken_name, too_many
from mailonce.manage.records import MissingSettingError, changed_source, source_of
from mailonce.settings import SourceSettings
from mailonce.store.audit import name_object
from mailonce.store.configuration import locks, sources
from mailonce.store.dialects.contract import Tx

# Each is counted and judged by itself.
SOURCES_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of every workspace."""

    parts: Parts

    def list_of(self, caller: Caller) -> list[Source]:
        """List the sources of the caller's workspace, as last read."""
        known = self.parts.configuration.snapshot.sources.values()
        return [source for source in known if source.workspace == caller.workspace]

    async def find(self, caller: Caller, id_or_name: str) -> Source:
        """Find a source of the caller's workspace.

        Raises: MissingError where, on the database's word, there is none.
        """
        source = await self.parts.find(lambda: self.list_of(caller), id_or_name)
        if source is None:
            raise missing_name("source", id_or_name, (one.name for one in self.list_of(caller)))
        return source

    async def make(self, caller: Caller, name: str, settings: SourceSettings) -> Source:
        """Make a source; raises what `put` does."""
        name_object(name)
        id_ = public("src", self.parts.clock.new_id())
        source = source_of(name, settings, workspace=caller.workspace, id_=id_)
        return await self.put(source, origin=API)

    async def change(
        self, caller: Caller, id_or_name: str, settings: SourceSettings
    ) -> Change[Source]:
        """Give a source other settings; without an account it stays in its own."""
        known = await self.find(caller, id_or_name)
        source = source_of(known.name, settings, workspace=known.workspace, id_=known.id)
        keeps = settings.account is None
        return await self.parts.change_record(
            self.prepare(source, origin=API, must_exist=True, keeps_account=keeps)
        )

    async def update(
        self, caller: Caller, id_or_name: str, changes: Mapping[str, Any]
    ) -> Change[Source]:
        """Change some settings of a source; the others, secrets included, stay."""
        known = await self.find(caller, id_or_name)
        if known.is_unreadable:
            raise ConfigError(f"source {known.name!r}: {UNREADABLE}")
        return await self.change(caller, known.id, changed_source(known, changes))

    async def put(
        self, source: Source, *, origin: str, must_exist: bool = False, keeps_account: bool = False
    ) -> Source:
        """Make or change a source, after checking that it can work.

        `must_exist`: one that somebody deleted meanwhile is not made again. `keeps_account`: it
        stays in the account that the database has it in.
        Raises: ConfigError with what is missing, ClashError where the name is taken, MissingError.
        """
        return await self.parts.put(
            self.prepare(source, origin=origin, must_exist=must_exist, keeps_account=keeps_account)
        )

    def prepare(
        self, source: Source, *, origin: str, must_exist: bool = False, keeps_account: bool = False
    ) -> Callable[[Tx], tuple[Source, bool]]:
        """Check a source, and give what puts it; that also says whether it changed anything.

        Raises: as `put` does, here or when it runs.
        """
        check_source(source, window_days=self.parts.window_days)
        sealer, clock = self.parts.sealer, self.parts.clock
        now_ms = clock.now_ms()

        def work(tx: Tx) -> tuple[Source, bool]:
            locks.take(tx, locks.CONFIGURATION)
            known = sources.get(tx, source.id, sealer)
            _check_place(tx, source, known, must_exist=must_exist)
            kept = known.account if keeps_account and known is not None else source.account
            off = None if known is None else off_when_put(known.off)
            wanted = replace(source, account=kept, off=off)
            stored = sources.origin_of(tx, wanted.id)
            owner = origin_when_put(origin, stored=stored, off=None if known is None else known.off)
            if wanted == known and stored == owner:
                return wanted, False
            sources.put(tx, wanted, sealer, origin=owner, now_ms=now_ms, chance=clock.chance)
            if off is None:
                sources.switch(tx, wanted.id, off=None, now_ms=now_ms)
            return wanted, True

        return work

    async def switch(self, caller: Caller, id_or_name: str, *, off: str | None) -> Source:
        """Switch a source off for a reason, or on again.

        While it is off, providers are asked to send again later. One that the settings file no
        longer has, and that is switched on, is no longer the file's.
        """
        source = await self.find(caller, id_or_name)
        now_ms = self.parts.clock.now_ms()

        def work(tx: Tx) -> None:
            if off is None and source.off == NOT_IN_FILE:
                sources.adopt(tx, source.id, origin=API)
            sources.switch(tx, source.id, off=off, now_ms=now_ms)

        await self.parts.change(work)
        return await self.find(caller, source.id)

    async def remove(self, caller: Caller, id_or_name: str) -> None:
        """Delete a source; its events stay."""
        source = await self.find(caller, id_or_name)
        await self.parts.change(lambda tx: sources.remove(tx, caller.workspace, source.id))


def check_source(source: Source, *, window_days: int) -> None:
    """Check that a source can work.

    Raises: ConfigError, one sentence that names what is missing.
    """
    provider = providers.find(source.provider)
    if provider is None:
        names = providers.names()
        advice = did_you_mean(source.provider, names, otherwise=f"use one of {', '.join(names)}")
        given = f"`provider` {source.provider[:80]!r}"
        raise ConfigError(f"source {source.name[:80]!r}: {given} is not known; {advice}")
    too_large = next(troubles_of_size(source), None)
    if too_large is not None:
        raise ConfigError(f"source {source.name[:80]!r}: {too_large}")
    # What is not of its form has no value that could be empty.
    unusable = proof.fault_of(source) or fault_of_empty(source)
    if unusable is not None:
        raise ConfigError(f"source {source.name!r}: {unusable}")
    _check_proof(source, provider)
    for network in source.allow_ips:
        proof.check_network(network)
    hook = provider.inbound
    flags = () if hook is None else hook.flags
    faults = (
        _fault_of_options(source, provider),
        provider.check(source),
        *(fault_of_flag(source, flag) for flag in flags),
    )
    trouble = next((fault for fault in faults if fault is not None), None)
    if trouble is not None:
        raise ConfigError(f"source {source.name!r}: {trouble}")
    longest_s = provider.longest_retry_s
    if window_days * 86_400 < longest_s:
        what = " inbound mail" if longest_s > provider.retry_horizon_s else ""
        raise ConfigError(
            f"`window_days` = {window_days} is shorter than {provider.title} retries{what} "
            f"({longest_s // 3600} h); raise it"
        )


def _check_place(tx: Tx, source: Source, known: Source | None, *, must_exist: bool) -> None:
    if known is None and must_exist:
        raise missing_name("source", source.name)
    if sources.other_of_name(tx, source) is not None:
        raise taken_name("source", source.name)
    if known is None and sources.count_of(tx, source.workspace) >= SOURCES_MAX:
        raise too_many("source", SOURCES_MAX)


def _check_proof(source: Source, provider: Provider) -> None:
    missing = [name for name in provider.needs if not getattr(source, name)]
    if source.is_signed and missing and not source.public_keys:
        setting = {"secrets": "secret", "public_keys": "public_key"}.get(missing[0], missing[0])
        raise MissingSettingError(
            f"source {source.name!r} needs `{setting}`; {provider.title} signs with it (where it "
            "does not, set `unsigned = true` and one of `basic`, `token`, `header`, `allow_ips`)"
        )
    if source.unsigned and (source.secrets or source.public_keys):
        raise ConfigError(
            f"source {source.name!r} has `unsigned = true` and a key that verifies signatures; "
            "leave one of them out"
        )
    is_signed = bool(provider.needs) and source.is_signed
    if not is_signed and not proof.has_proof(source) and not source.unproven:
        raise MissingSettingError(
            f"source {source.name!r} has no proof, and {provider.title} signs nothing here: "
            "set `basic`, `token`, `header` or `allow_ips` (or `unproven = true`)"
        )


def _fault_of_options(source: Source, provider: Provider) -> str | None:
    known = provider.known_options
    unknown = next((name for name in source.options if name not in known), None)
    if unknown is None:
        return None
    names = ", ".join(sorted(known)) or "none"
    listed = f"the options of {provider.title} are: {names}"
    return f"there is no option {unknown[:40]!r}; {did_you_mean(unknown, known, otherwise=listed)}"
