"""The parts that managing needs."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import TypeVar

from mailonce.clock import Clock
from mailonce.core.signatures.sealing import Sealer
from mailonce.net.http import GuardedClient
from mailonce.queue.configuration import ConfigurationCache
from mailonce.store.dialects.contract import Database, Tx

T = TypeVar("T")


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

    async def change(self, work: Callable[[Tx], T]) -> T:
        """Change the configuration in one transaction, and tell every process to read it again."""
        result = await self.database.write(work)
        await self.configuration.announce()
        return result
