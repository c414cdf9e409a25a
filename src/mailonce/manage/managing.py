"""The parts that managing needs."""

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from typing import TypeVar

from mailonce.clock import Clock
from mailonce.core.arrivals.source import Source
from mailonce.core.deliveries.route import Route
from mailonce.core.signatures.sealing import Sealer
from mailonce.net.http import GuardedClient
from mailonce.queue.configuration import ConfigurationCache
from mailonce.store.dialects.contract import Database, Tx

T = TypeVar("T")
R = TypeVar("R", Route, Source)


@dataclass(frozen=True, slots=True)
class Parts:
    """Database, clock and configuration; `client` knows which URLs we may post to."""

    database: Database
    clock: Clock
    sealer: Sealer
    client: GuardedClient
    configuration: ConfigurationCache
    _: KW_ONLY
    window_days: int

    async def find(self, list_known: Callable[[], Iterable[R]], id_or_name: str) -> R | None:
        """Find one of those that are known; where there is none, after asking the database."""
        record = _named(list_known(), id_or_name)
        if record is None and await self.configuration.refresh():
            record = _named(list_known(), id_or_name)
        return record

    async def put(self, work: Callable[[Tx], tuple[T, bool]]) -> T:
        """Run what puts a record; where that changed something, tell every process."""
        record, is_changed = await self.database.write(work)
        if is_changed:
            await self.configuration.announce()
        return record

    async def change(self, work: Callable[[Tx], T]) -> T:
        """Change the configuration in one transaction, and tell every process to read it again."""
        result = await self.database.write(work)
        await self.configuration.announce()
        return result


def _named(records: Iterable[R], id_or_name: str) -> R | None:
    return next((one for one in records if id_or_name in {one.id, one.name}), None)
