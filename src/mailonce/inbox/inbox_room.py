"""How full each inbox is, with what this process is storing in it.

What a read of the database says is believed for a second. It does not see mail whose commit is
under way, nor what comes within that second, to whichever address of the inbox; so each mail is
counted here as soon as it is let through. What is counted twice, since the read saw it already, is
forgotten with that second: an inbox may look full too early, and its senders try again.
"""

from collections.abc import Iterable

from mailonce.core.inboxes.inbox import Inbox, InboxUse

REMEMBER_S = 1.0
REMEMBER_MAX = 10_000


class _Load:
    """What an inbox holds, and how much of that is not committed yet."""

    __slots__ = ("coming", "coming_bytes", "held", "held_bytes", "until_s")

    def __init__(self) -> None:
        self.held = self.held_bytes = self.coming = self.coming_bytes = 0
        self.until_s = 0.0


class InboxRoom:
    """Counts the mail of inboxes between two reads of the database."""

    def __init__(self) -> None:
        self._loads: dict[str, _Load] = {}

    def refresh(self, inbox: Inbox, now_s: float) -> None:
        """Take over what a read said, unless there was one a moment ago."""
        load = self._loads.get(inbox.id)
        if load is None:
            self._make_space()
            load = self._loads[inbox.id] = _Load()
        if load.until_s <= now_s:
            load.held = inbox.mails + load.coming
            load.held_bytes = inbox.bytes + load.coming_bytes
            load.until_s = now_s + REMEMBER_S

    def use_of(self, inbox: Inbox) -> InboxUse:
        """Say what an inbox holds by now."""
        load = self._loads.get(inbox.id)
        if load is None:
            return InboxUse(inbox.mails, inbox.bytes)
        return InboxUse(load.held, load.held_bytes)

    def begin(self, inboxes: Iterable[str], mail_bytes: int) -> None:
        """Count a mail that is about to be stored; each inbox was refreshed just before."""
        for inbox in inboxes:
            load = self._loads[inbox]
            load.held += 1
            load.held_bytes += mail_bytes
            load.coming += 1
            load.coming_bytes += mail_bytes

    def end(self, inboxes: Iterable[str], mail_bytes: int) -> None:
        """Leave the mail to the next read, whether or not it was stored."""
        for inbox in inboxes:
            load = self._loads[inbox]
            load.coming -= 1
            load.coming_bytes -= mail_bytes

    def take_back(self, inbox: str, mail_bytes: int) -> None:
        """Count a mail no longer that was a copy of one that is there."""
        load = self._loads.get(inbox)
        if load is not None:
            load.held -= 1
            load.held_bytes -= mail_bytes

    def forget(self) -> None:
        """Believe the next read, whatever was read before."""
        for load in self._loads.values():
            load.until_s = 0.0

    def _make_space(self) -> None:
        if len(self._loads) >= REMEMBER_MAX:
            # Mail under way is bounded by its connections.
            self._loads = {name: load for name, load in self._loads.items() if load.coming}
