"""Dismiss: a person decides that nothing more is to be done about a dead letter."""

from mailonce.clock import Clock
from mailonce.core.access import Caller
from mailonce.core.ids import private, public
from mailonce.core.moment import moment
from mailonce.errors import ClashError, MissingError
from mailonce.store.dialects.contract import Database, Tx
from mailonce.store.ledger import dead_letters
from mailonce.store.ledger.dead_letters import DeadLetter
from mailonce.telemetry import DEAD_LETTER_DISMISSED, log


async def dismiss(
    database: Database, clock: Clock, caller: Caller, public_id: str, *, reason: str
) -> None:
    """Resolve a dead letter as it is; its bytes, last error and history stay.

    One that was dismissed without a reason is given one later; one that is closed in another way
    stays so.

    Raises: MissingError where this workspace has none of that id, ClashError where `reason` would
    be lost.
    """
    id_ = private("dead", public_id)
    workspace, now_ms = caller.workspace, clock.now_ms()

    def work(tx: Tx) -> bool:
        because = reason or None
        if dead_letters.dismiss(tx, workspace, id_, by=caller.by, because=because, now_ms=now_ms):
            return True
        letter = dead_letters.get(tx, workspace, id_)
        if letter is None:
            raise MissingError(
                f"there is no dead letter {public_id[:80]!r}; see GET /v1/dead-letters"
            )
        if because is None or because == letter.dismissed_because:
            return False
        if not dead_letters.add_reason(tx, workspace, id_, because=because):
            raise ClashError(f"{closed_words(letter)}; the reason that you give is not kept")
        return False

    if await database.write(work):
        log.info(DEAD_LETTER_DISMISSED, letter=public_id, workspace=workspace)


def closed_words(letter: DeadLetter) -> str:
    """Say how and when a dead letter was closed."""
    why = "" if letter.dismissed_because is None else f" ({letter.dismissed_because})"
    how = f"dismissed{why}" if letter.is_dismissed else "retried"
    return f"{public('dead', letter.id)} is closed already: {how}, at {moment(letter.resolved_ms)}"
