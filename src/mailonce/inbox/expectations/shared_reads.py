"""Expectations read for all who ask at the same time (`inbox/read_queue`).

There are two queues. Who was woken, because something happened, has one of their own: they do not
stand behind those who just ask again.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from mailonce.inbox.read_queue import REST_S, ReadQueue
from mailonce.store.dialects.contract import Database
from mailonce.store.expectations import standing
from mailonce.store.expectations.standing import ExpectationStanding

Standings = Mapping[bytes, ExpectationStanding]


class SharedReads:
    """Reads expectations for all who ask through this process."""

    def __init__(self, database: Database) -> None:
        load = partial(_load, database)
        self._usual = ReadQueue(load, rest_s=REST_S)
        self._urgent = ReadQueue(load)

    async def read(
        self, workspace: str, id_: bytes, *, is_urgent: bool
    ) -> ExpectationStanding | None:
        """Read an expectation as it stands now, or later; None where there is none.

        Raises: UnavailableError.
        """
        queue = self._urgent if is_urgent else self._usual
        known = await queue.ask(id_)
        return None if known is None or known.expectation.workspace != workspace else known


async def _load(database: Database, ids: Sequence[bytes]) -> Standings:
    return await database.read(partial(standing.load_all, ids=ids))
