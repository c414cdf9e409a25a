"""Who asks for a change: said before it is made, for the audit log."""

from mailonce.clock import Clock
from mailonce.core.access import Caller
from mailonce.store.audit import ACTING, OBJECT_CHARS_MAX, AuditEntry

SETTINGS_FILE = "settings file"


def begin_change(clock: Clock, caller: Caller, operation: str, object_: str) -> None:
    """Have what the running request writes stand in the audit log."""
    ACTING.set(entry_of(clock, caller.workspace, caller.by, operation, object_))


def give_reason(reason: str | None) -> None:
    """Say why, where somebody gave a reason; it stands behind what was changed."""
    entry = ACTING.get()
    if entry is not None and reason:
        entry.object = f"{entry.object}: {reason}"[:OBJECT_CHARS_MAX]


def entry_of(clock: Clock, workspace: str, by: str, operation: str, object_: str) -> AuditEntry:
    return AuditEntry(
        id=clock.new_id(),
        workspace=workspace,
        at_ms=clock.now_ms(),
        by=by,
        operation=operation,
        object=object_[:OBJECT_CHARS_MAX],
    )
