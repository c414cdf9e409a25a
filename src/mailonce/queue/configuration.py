"""The configuration in memory: sources, routes, senders and keys, read again when it changes."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from mailonce.clock import Clock
from mailonce.core.arrivals.source import Source
from mailonce.core.deliveries.route import Route
from mailonce.core.sends.sender import Sender
from mailonce.core.signatures.sealing import Sealer
from mailonce.errors import MailonceError, MissingError
from mailonce.loop import Loop
from mailonce.store.configuration import keys, routes, senders, sources
from mailonce.store.configuration.keys import ApiKey
from mailonce.store.configuration.workspaces import DEFAULT
from mailonce.store.dialects.contract import Database, Routing
from mailonce.store.schema.tables import HEAD
from mailonce.telemetry import CLOCKS_DIFFER, CONFIGURATION_LOADED, SECRETS_UNREADABLE, Metrics, log

POLL_S = 1.0
SKEW_WARN_MS = 30_000
_NO_SENDERS: dict[str | None, Sender] = {}


@dataclass(frozen=True, slots=True)
class Configuration:
    """Sources, routes, senders and keys at one version."""

    version: int = 0
    sources: dict[str, Source] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    keys: dict[bytes, ApiKey] = field(default_factory=dict)
    routes: dict[str, Route] = field(default_factory=dict)
    routing: Routing = field(default_factory=lambda: Routing(0, {}))
    # The oldest first.
    senders: dict[str, Sender] = field(default_factory=dict)
    # By workspace, then by what a request may name: nothing, an id or a name.
    _senders_of: dict[str, dict[str | None, Sender]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        for sender in self.senders.values():
            own = self._senders_of.setdefault(sender.workspace, {None: sender})
            if own[None].off is not None and sender.off is None:
                own[None] = sender
            for named in (sender.id, sender.name):
                own.setdefault(named, sender)

    @property
    def unreadable(self) -> list[str]:
        """The ids of those whose secrets no master key of this process opens."""
        return [one.id for one in self._sealed if one.is_unreadable]

    def ids_in(self, workspace: str) -> frozenset[str]:
        """Give the ids of a workspace's sources, routes and senders."""
        return frozenset(one.id for one in self._sealed if one.workspace == workspace)

    @property
    def _sealed(self) -> list[Source | Route | Sender]:
        return [*self.sources.values(), *self.routes.values(), *self.senders.values()]

    @property
    def opens_nothing(self) -> bool:
        """Say whether there are secrets, and none of them can be opened."""
        many = len(self._sealed)
        return many > 0 and len(self.unreadable) == many

    def find_sender(self, workspace: str, id_or_name: str | None) -> Sender | None:
        """Find a sender of a workspace; None asks for the default, the first that is on."""
        return self._senders_of.get(workspace, _NO_SENDERS).get(id_or_name)

    def find_source(self, name: str) -> Source | None:
        """Find a source by id; a bare name is an alias in the default workspace."""
        return self.sources.get(name) or self.sources.get(self.aliases.get(name, ""))


class ConfigurationCache:
    """Caches the configuration; a miss is never believed without reading the database."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        sealer: Sealer,
        metrics: Metrics,
        *,
        poll_s: float = POLL_S,
    ) -> None:
        self._database = database
        self._clock = clock
        self._sealer = sealer
        self._metrics = metrics
        self._poll_s = poll_s
        self._asking: asyncio.Task[bool] | None = None
        self._loop = Loop("configuration", self._look, retry_s=poll_s)
        self.stop = self._loop.stop
        # Which reading is the last that began, and which the snapshot is from.
        self._begun = self._known = 0
        # Which version was last reported: one that is read again is no news, and neither are those
        # that a start goes through.
        self._logged: int | None = None
        self._is_started = False
        # Notifies other processes of a change that was made here.
        self.notify: Callable[[], None] = lambda: None
        # Called whenever the configuration was read.
        self.on_load: list[Callable[[], None]] = []
        self._soon: set[asyncio.Task[None]] = set()
        self.snapshot = Configuration()
        self.skew_ms = 0

    def start(self) -> None:
        """Look for changes from now on, and report which version that begins with."""
        self._is_started = True
        self._report()
        self._loop.start()

    async def announce(self) -> None:
        """Read what was just changed here, and notify the other processes."""
        self.notify()
        await self.reload()

    def refresh_soon(self) -> None:
        """Read again because another process notified us; where it fails, the next look does."""
        task = asyncio.create_task(self._refresh_quietly())
        self._soon.add(task)
        task.add_done_callback(self._soon.discard)

    async def refresh(self) -> bool:
        """Read again if the version moved, and say so; callers at the same time share one look."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._refresh())
        return await asyncio.shield(self._asking)

    def known_source(self, name: str) -> Source | None:
        """Find a source by id or name, as last read."""
        return self.snapshot.find_source(name)

    async def find_source(self, name: str) -> Source:
        """Find a source by id, or by name in the default workspace.

        Raises: MissingError where, on the database's word, there is none.
        """
        source = self.snapshot.find_source(name)
        if source is None and await self.refresh():
            source = self.snapshot.find_source(name)
        if source is None:
            raise MissingError(
                f"there is no source {name[:80]!r} at this address; `mailonce source list` shows "
                "the URL of each, which ends in its id in another workspace than the default one; "
                "`mailonce source add` makes one"
            )
        return source

    async def reload(self) -> None:
        """Read everything, unless a read that began later has ended already."""
        self._begun += 1
        number = self._begun
        version, all_sources, all_routes, all_keys, all_senders = await self._database.read(
            lambda tx: (
                tx.execute(HEAD.select()).mappings().one()["configuration"],
                sources.list_all(tx, self._sealer),
                routes.list_all(tx, self._sealer),
                keys.list_in_force(tx),
                senders.list_all(tx, self._sealer),
            )
        )
        if number < self._known:
            return
        self._known = number
        self.snapshot = Configuration(
            version,
            {source.id: source for source in all_sources},
            {source.name: source.id for source in all_sources if source.workspace == DEFAULT},
            {key.digest: key for key in all_keys},
            {route.id: route for route in all_routes},
            _routing(version, all_routes),
            {sender.id: sender for sender in all_senders},
        )
        for call in self.on_load:
            call()
        self._metrics.name_records(
            {source.id: source.name for source in all_sources},
            {route.id: route.name for route in all_routes},
        )
        self._metrics.unreadable_secrets.set(len(self.snapshot.unreadable))
        if self._is_started:
            self._report()

    def _report(self) -> None:
        known = self.snapshot
        if known.version == self._logged:
            return
        self._logged = known.version
        log.info(
            CONFIGURATION_LOADED,
            version=known.version,
            sources=len(known.sources),
            routes=len(known.routes),
            senders=len(known.senders),
        )
        unreadable = known.unreadable
        if unreadable:
            log.error(SECRETS_UNREADABLE, count=len(unreadable), ids=unreadable[:20])

    async def _refresh(self) -> bool:
        before = self._clock.now_ms()
        head = await self._database.head()
        self.skew_ms = (before + self._clock.now_ms()) // 2 - head.now_ms
        self._metrics.clock_skew.set(self.skew_ms / 1000)
        if head.configuration == self.snapshot.version:
            return False
        await self.reload()
        return True

    async def _refresh_quietly(self) -> None:
        try:
            await self.refresh()
        except MailonceError:
            # What is known stays in force; the next look asks again.
            return

    async def _look(self) -> float:
        await self._refresh_quietly()
        if abs(self.skew_ms) > SKEW_WARN_MS:
            log.warning(CLOCKS_DIFFER, skew_ms=self.skew_ms)
        return self._poll_s


def _routing(version: int, routes: list[Route]) -> Routing:
    by_workspace: dict[str, list[Route]] = {}
    for route in routes:
        by_workspace.setdefault(route.workspace, []).append(route)
    return Routing(version, by_workspace)
