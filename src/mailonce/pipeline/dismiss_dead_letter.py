"""Dismiss: a person decides that nothing more is to be done about a dead letter."""

from mailonce.clock import Clock
from mailonce.core.access import Caller
from mailonce.core.ids import private
from mailonce.errors import MissingError
from mailonce.store.dialects.contract import Database, Tx
from mailonce.store.ledger import dead_letters
from mailonce.telemetry import DEAD_LETTER_DISMISSED, log


async def dismiss(
    database: Database, clock: Clock, caller: Caller, public_id: str, *, reason: str
) -> None:
    """Resolve a dead letter as it is; its bytes, last error and history stay.

    Raises: MissingError where this workspace has none of that id.
    """
    id_ = private("dead", public_id)
    workspace, now_ms = caller.workspace, clock.now_ms()

    def work(tx: Tx) -> bool | None:
        letter = dead_letters.get(tx, workspace, id_)
        if letter is None:
            return None
        return dead_letters.dismiss(
            tx, workspace, id_, by=caller.by, because=reason or None, now_ms=now_ms
        )

    is_new = await database.write(work)
    if is_new is None:
        raise MissingError(f"there is no dead letter {public_id[:80]!r}; see GET /v1/dead-letters")
    if is_new:
        log.info(DEAD_LETTER_DISMISSED, letter=public_id, workspace=workspace)
