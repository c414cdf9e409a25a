"""Streams: follow an inbox for as long as the client stays, within a number for each workspace."""

from collections import Counter
from collections.abc import AsyncIterator

from mailonce.core.inboxes.inbox import Inbox
from mailonce.errors import RefusedError, UnavailableError
from mailonce.inbox.waiting import CursorLostError, InboxPage, InboxReaders

# A comment goes out at least this often: proxies close what is silent for longer.
HEARTBEAT_S = 15.0
PAGE_ROWS = 50
# What one stream holds in memory while its client does not read.
PAGE_BYTES_MAX = 256 << 10


class InboxStreams:
    """The streams that are open in this process."""

    def __init__(self, readers: InboxReaders, *, streams_max: int) -> None:
        self._readers = readers
        self._streams_max = streams_max
        self._of_workspace: Counter[str] = Counter()

    def check_room(self, workspace: str) -> None:
        """See that a workspace may open one more.

        Raises: UnavailableError.
        """
        if self._of_workspace[workspace] >= self._streams_max:
            raise UnavailableError(
                f"{self._streams_max} streams of this workspace are open; close one, or poll"
            )

    async def follow(
        self, inbox: Inbox, *, after: int
    ) -> AsyncIterator[InboxPage | CursorLostError | None]:
        """Give what comes behind a number: pages, what was lost, and None as a heartbeat.

        It ends when the inbox is deleted, when the process stops, or where the database cannot be
        read: a client that comes again goes on behind the last number that it has seen.
        """
        workspace = inbox.workspace
        if self._of_workspace[workspace] >= self._streams_max:
            return
        self._of_workspace[workspace] += 1
        try:
            while not self._readers.is_closing:
                try:
                    page = await self._readers.read(
                        inbox.id,
                        workspace=workspace,
                        after=after,
                        limit=PAGE_ROWS,
                        wait_s=HEARTBEAT_S,
                        bytes_max=PAGE_BYTES_MAX,
                    )
                except CursorLostError as lost:
                    after = lost.next
                    yield lost
                    continue
                except (RefusedError, UnavailableError):
                    return
                after = page.next
                yield page if page.messages else None
        finally:
            self._of_workspace[workspace] -= 1
            if not self._of_workspace[workspace]:
                del self._of_workspace[workspace]
