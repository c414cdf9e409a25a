"""Service: the parts, started and stopped together; what every door calls."""

import asyncio
from dataclasses import dataclass, replace

from mailonce import providers
from mailonce.clock import Clock
from mailonce.core import proof
from mailonce.core.access import KEY_PREFIX, Caller, Scope, demand, digest_of
from mailonce.core.checkup import Finding
from mailonce.core.ids import public
from mailonce.core.provider import Provider
from mailonce.core.seal import UNREADABLE, Sealer
from mailonce.core.source import Source, troubles_of_size
from mailonce.errors import (
    ClashError,
    ConfigError,
    MissingError,
    RefusedError,
    UnavailableError,
    VerifyError,
)
from mailonce.net.http import GuardedClient
from mailonce.net.keys import KeyRing
from mailonce.pipeline.receive import Receiving
from mailonce.pipeline.record import Recorder
from mailonce.pipeline.refuse import Refusals
from mailonce.pipeline.retry import retry
from mailonce.queue.alarm import Alarms
from mailonce.queue.configuration import Configuration, ConfigurationCache
from mailonce.queue.maintain import Maintenance
from mailonce.queue.poll import Polls
from mailonce.queue.rerun import Reruns
from mailonce.queue.routing import API, Routes
from mailonce.queue.wake import Wakes
from mailonce.queue.worker import Worker
from mailonce.store import keys, locks, sources, workspaces
from mailonce.store.dialects.contract import Database, Tx
from mailonce.store.keys import ApiKey
from mailonce.store.readiness import Readiness
from mailonce.store.workspaces import Workspace
from mailonce.telemetry import ADMIN_KEY_SET, STARTED, STOP_CUT_SHORT, STOPPED, Metrics, log
from mailonce.views.doctor import examine

# Of the admin key that the settings name: theirs alone, so that a change of it is known.
ADMIN_KEY_NAME = "MAILONCE_ADMIN_KEY"
# How long everything but attempts under way may take to stop.
STOP_S = 5.0
# Each is counted and judged by itself.
SOURCES_MAX = 1_000


@dataclass(slots=True, kw_only=True)
class Service:
    """Everything that runs in one process."""

    database: Database
    clock: Clock
    metrics: Metrics
    sealer: Sealer
    client: GuardedClient
    key_ring: KeyRing
    recorder: Recorder
    refusals: Refusals
    configuration: ConfigurationCache
    routes: Routes
    reruns: Reruns
    wakes: Wakes
    alarms: Alarms
    maintenance: Maintenance
    polls: Polls
    ready: Readiness
    receiving: Receiving
    window_days: int
    body_bytes_max: int
    trusted_proxies: tuple[str, ...]
    stop_s: float = STOP_S
    # None where this process leaves deliveries to others.
    worker: Worker | None = None

    async def start(self, *, maintains: bool = True) -> None:
        """Load the configuration and start the loops.

        `maintains` is for servers: what a command forgets, it was asked to forget.
        """
        await self.configuration.reload()
        self.recorder.start()
        self.configuration.start()
        self.wakes.start()
        if self.worker is not None:
            self.worker.start()
        self.alarms.start()
        if maintains:
            await self.maintenance.keep()
            self.maintenance.start()
        self.reruns.start()
        self.polls.start()
        log.info(STARTED, database=self.database.name, sources=len(self.snapshot.sources))

    async def stop(self) -> None:
        """Finish what was taken, write down what was counted, and let go.

        All of it within `stop_s`: a database that does not answer keeps nobody from stopping, and
        what was not written down then was not acknowledged either.
        """
        try:
            async with asyncio.timeout(self.stop_s):
                await self._finish()
        except TimeoutError:
            log.warning(STOP_CUT_SHORT, seconds=self.stop_s)
        await self.database.close()
        log.info(STOPPED)

    def hurry(self) -> None:
        """Let nobody wait for what may not come, because the end is near."""
        self.polls.release()
        self.recorder.hurry()

    async def _finish(self) -> None:
        await self.polls.stop()
        await self.alarms.stop()
        await self.recorder.close()
        if self.worker is not None:
            await self.worker.stop()
        await self.wakes.stop()
        await self.configuration.stop()
        await self.reruns.stop()
        await self.maintenance.stop()
        await self.key_ring.close()
        await self.client.close()

    @property
    def snapshot(self) -> Configuration:
        """The sources and keys as last read."""
        return self.configuration.snapshot

    async def caller_of(self, secret: str | None, workspace: str | None = None) -> Caller:
        """Prove an API caller; only the admin key may name another workspace.

        Raises: VerifyError, AccessError or MissingError.
        """
        if not secret:
            raise VerifyError("send `Authorization: Bearer KEY`; make a key with `mailonce key`")
        digest = digest_of(secret)
        key = self.snapshot.keys.get(digest)
        if key is None and await self.configuration.refresh():
            key = self.snapshot.keys.get(digest)
        if key is None:
            raise VerifyError("this key is not known or was revoked; make one with `mailonce key`")
        caller = Caller(key.workspace, key.scope)
        if workspace is None or workspace == caller.workspace:
            return caller
        return await self.acting_in(caller, workspace)

    async def acting_in(self, caller: Caller, workspace: str) -> Caller:
        """Let the admin act in another workspace."""
        demand(caller, frozenset({Scope.ADMIN}))
        found = await self.find_workspace(workspace)
        if found is None:
            raise MissingError(f"there is no workspace {workspace[:80]!r}; see GET /v1/workspaces")
        return Caller(found.id, caller.scope)

    async def put_source(
        self, source: Source, *, origin: str, changes: bool = False, keeps_account: bool = False
    ) -> Source:
        """Make or change a source, after checking that it can work.

        `changes`: one that somebody deleted meanwhile is not made again. `keeps_account`: it stays
        in the account that the database has it in.
        Raises: ConfigError with what is missing, ClashError where the name is taken, MissingError.
        """
        check_source(source, window_days=self.window_days)
        stored = self.snapshot.sources.get(source.id)
        if origin != API and stored is not None and stored.is_unreadable:
            # Sealing it anew would take it from the doors that have the other key.
            raise ConfigError(f"source {source.name!r}: {UNREADABLE}")
        now_ms = self.clock.now_ms()

        def work(tx: Tx) -> Source:
            locks.take(tx, locks.CONFIGURATION)
            account = sources.account_of(tx, source.id)
            if account is None and changes:
                raise MissingError(f"there is no source {source.name!r}; see GET /v1/sources")
            if sources.other_of_name(tx, source) is not None:
                raise ClashError(f"there is a source {source.name!r} already; choose another name")
            if account is None and sources.count_of(tx, source.workspace) >= SOURCES_MAX:
                raise RefusedError(
                    f"a workspace has at most {SOURCES_MAX} sources; delete one first"
                )
            kept = account if keeps_account and account is not None else source.account
            wanted = replace(source, account=kept)
            sources.put(
                tx, wanted, self.sealer, origin=origin, now_ms=now_ms, chance=self.clock.chance
            )
            return wanted

        wanted = await self.database.write(work)
        await self.configuration.announce()
        return wanted

    async def remove_source(self, caller: Caller, source_id: str) -> None:
        """Delete a source; what it brought stays."""
        source = self.snapshot.sources.get(source_id)
        if source is None or source.workspace != caller.workspace:
            raise MissingError(f"there is no source {source_id[:80]!r}; see GET /v1/sources")
        await self.database.write(lambda tx: sources.remove(tx, caller.workspace, source_id))
        await self.configuration.announce()

    async def make_key(self, workspace: str, scope: Scope, name: str) -> tuple[ApiKey, str]:
        """Make an API key; the secret is told once and kept as a hash."""
        if name == ADMIN_KEY_NAME:
            raise RefusedError(f"the name {name} belongs to the key of the settings; use another")
        secret = KEY_PREFIX + self.clock.chance(24).hex()
        key = self._key(workspace, scope, name, secret)
        await self.database.write(lambda tx: keys.put(tx, key))
        await self.configuration.announce()
        return key, secret

    async def set_admin_key(self, workspace: str, secret: str) -> None:
        """Let the settings' admin key be in force, and those that they had before be revoked."""
        key = self._key(workspace, Scope.ADMIN, ADMIN_KEY_NAME, secret)
        now_ms = self.clock.now_ms()
        if await self.database.write(lambda tx: keys.put_only(tx, key, now_ms=now_ms)):
            log.info(ADMIN_KEY_SET, key=key.id)
            await self.configuration.announce()

    async def revoke_key(self, caller: Caller, key_id: str) -> None:
        """Revoke a key; it is refused here at once, and elsewhere within a second.

        Raises: MissingError, also for an admin key that is not the caller's to revoke.
        """
        now_ms = self.clock.now_ms()

        def work(tx: Tx) -> None:
            locks.take(tx, locks.CONFIGURATION)
            key = keys.get(tx, caller.workspace, key_id)
            hidden = key is not None and key.scope is Scope.ADMIN and not caller.is_admin
            if key is None or hidden or key.revoked_ms is not None:
                raise MissingError(f"there is no key {key_id[:80]!r} in force; see GET /v1/keys")
            if key.scope is Scope.ADMIN and key.name == ADMIN_KEY_NAME:
                raise RefusedError(
                    "this key stands in the settings; change MAILONCE_ADMIN_KEY and restart"
                )
            keys.revoke(tx, key.id, now_ms=now_ms)

        await self.database.write(work)
        await self.configuration.announce()

    async def list_keys(self, caller: Caller) -> list[ApiKey]:
        """List the keys of the caller's workspace; those of admins to an admin alone."""
        admins = caller.is_admin
        return await self.database.read(
            lambda tx: keys.list_of(tx, caller.workspace, admins=admins)
        )

    def _key(self, workspace: str, scope: Scope, name: str, secret: str) -> ApiKey:
        return ApiKey(
            id=public("key", self.clock.new_id()),
            workspace=workspace,
            name=name,
            scope=scope,
            digest=digest_of(secret),
            created_ms=self.clock.now_ms(),
        )

    async def list_workspaces(self) -> list[Workspace]:
        """List every workspace."""
        return await self.database.read(workspaces.list_all)

    async def find_workspace(self, id_or_name: str) -> Workspace | None:
        """Find a workspace."""
        return await self.database.read(lambda tx: workspaces.find(tx, id_or_name))

    async def make_workspace(self, name: str) -> Workspace:
        """Make a workspace; its name must be free."""
        made = Workspace(public("ws", self.clock.new_id()), name, self.clock.now_ms())

        def work(tx: Tx) -> None:
            locks.take(tx, locks.CONFIGURATION)
            if workspaces.find(tx, name) is not None:
                raise ClashError(f"there is a workspace {name!r} already; choose another name")
            workspaces.put(tx, made)

        await self.database.write(work)
        return made

    async def retry_dead_letter(self, caller: Caller, dead_id: str) -> None:
        """Parse and record an arrival again, with today's code, or owe a delivery again."""
        known = self.snapshot.sources
        await retry(self.receiving, known, self.reruns.retry, caller.workspace, dead_id)

    async def readiness(self) -> dict[str, object]:
        """See that this process can do what the door does: commit a write, within a time limit.

        Raises: UnavailableError where it cannot.
        """
        if self.snapshot.opens_nothing:
            raise UnavailableError(UNREADABLE)
        await self.ready.check()
        return {
            "database": self.database.name,
            "configuration": self.snapshot.version,
            "queued": self.recorder.queued_events,
            "unreadable": len(self.snapshot.unreadable),
        }

    async def examine(self) -> list[Finding]:
        """Check the database, the clock, the window and the sources."""
        return await examine(self.database, self.sealer, self.clock, window_days=self.window_days)


def _check_proof(source: Source, provider: Provider) -> None:
    missing = [name for name in provider.needs if not getattr(source, name)]
    if source.is_signed and missing and not source.public_keys:
        setting = {"secrets": "secret", "public_keys": "public_key"}.get(missing[0], missing[0])
        raise ConfigError(
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
        raise ConfigError(
            f"source {source.name!r} has no proof, and {provider.title} signs nothing here: "
            "set `basic`, `token`, `header` or `allow_ips` (or `unproven = true`)"
        )


def check_source(source: Source, *, window_days: int) -> None:
    """Check that a source can work.

    Raises: ConfigError, one sentence that names what is missing.
    """
    provider = providers.find(source.provider)
    if provider is None:
        known = ", ".join(providers.names())
        raise ConfigError(f"`provider` {source.provider[:80]!r} is not known; use one of {known}")
    too_large = next(troubles_of_size(source), None)
    if too_large is not None:
        raise ConfigError(f"source {source.name[:80]!r}: {too_large}")
    _check_proof(source, provider)
    for network in source.allow_ips:
        proof.check_network(network)
    trouble = provider.check(source)
    if trouble is not None:
        raise ConfigError(f"source {source.name!r}: {trouble}")
    if window_days * 86_400 < provider.retry_horizon_s:
        raise ConfigError(
            f"`window_days` = {window_days} is shorter than {provider.title} retries "
            f"({provider.retry_horizon_s // 3600} h); raise it"
        )
