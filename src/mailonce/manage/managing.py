"""The parts that managing needs."""

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Generic, NamedTuple, TypeVar

from mailonce.clock import Clock
from mailonce.core.arrivals.source import Source
from mailonce.core.deliveries.route import Route
from mailonce.core.signatures.sealing import Sealer
from mailonce.errors import ClashError, RefusedError
from mailonce.net.http import GuardedClient
from mailonce.queue.configuration import ConfigurationCache
from mailonce.store.dialects.contract import Database, Tx

T = TypeVar("T")
R = TypeVar("R", Route, Source)


class Change(NamedTuple, Generic[T]):
    """A record as it stands after a request to change it, and whether that changed anything."""

    record: T
    is_changed: bool


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
        return (await self.change_record(work)).record

    async def change_record(self, work: Callable[[Tx], tuple[T, bool]]) -> Change[T]:
        """As `put`, and say whether something changed: equal settings are not written again."""
        change = Change(*await self.database.write(work))
        if change.is_changed:
            await self.configuration.announce()
        return change

    async def change(self, work: Callable[[Tx], T]) -> T:
        """Change the configuration in one transaction, and tell every process to read it again."""
        result = await self.database.write(work)
        await self.configuration.announce()
        return result


def taken_name(noun: str, name: str) -> ClashError:
    """Say that another record of a workspace has the name already."""
    return ClashError(f"there is a {noun} {name!r} already; choose another name")


def too_many(noun: str, most: int) -> RefusedError:
    """Say that a workspace can have no further record of a kind."""
    return RefusedError(f"a workspace has at most {most} {noun}s; delete one first")


def _named(records: Iterable[R], id_or_name: str) -> R | None:
    return next((one for one in records if id_or_name in {one.id, one.name}), None)
