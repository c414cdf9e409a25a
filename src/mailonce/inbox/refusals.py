"""Refusals of mail: counted in memory, stored each second where the inbox's owner sees them."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from mailonce.clock import Clock
from mailonce.core.inboxes.inbox import Inbox, RecipientRefusal
from mailonce.core.mail.address import read_address
from mailonce.core.text import storable
from mailonce.inbox.read_queue import REST_S, ReadQueue
from mailonce.store.dialects.contract import Database, Priority
from mailonce.store.inboxes import refusals
from mailonce.store.inboxes.refusals import MailRefusal, RefusalPlace, RefusedMail
from mailonce.telemetry import UNKNOWN_MAIL_DOMAIN, Metrics, log

KINDS_MAX = 2_000
REFUSALS_MAX = 100
ADDRESS_CHARS_MAX = 320
MINUTE_MS = 60_000
LOGGED_DOMAINS_MAX = 20


class MailRefusals:
    """Counts what the door refuses: a flood costs one row for each address, reason and minute."""

    def __init__(self, database: Database, clock: Clock, metrics: Metrics, process: bytes) -> None:
        self._database = database
        self._clock = clock
        self._metrics = metrics
        self._process = process
        # The domains of nobody's that were logged in a minute.
        self._logged_minute = 0
        self._logged: set[str] = set()
        self._counts: Counter[MailRefusal] = Counter()
        self._storing: asyncio.Task[None] | None = None
        # Most who ask have waited for mail in vain, and had none refused either.
        self._lists = ReadQueue(self._list, rest_s=REST_S)
        self.on_refusal: Callable[[RecipientRefusal], None] = lambda _: None

    def add(
        self, address: str | None, refusal: RecipientRefusal, *, peer: str | None = None
    ) -> None:
        """Count a refusal; `address` is the recipient, where one was named."""
        del peer
        self.on_refusal(refusal)
        read = None if address is None else read_address(address)
        text = "" if address is None else storable(address, chars_max=ADDRESS_CHARS_MAX)
        kind = MailRefusal(
            address=text if read is None else str(read),
            domain="" if read is None else read.domain,
            reason=str(refusal.reason),
            code=refusal.code,
            minute=self._clock.now_ms() // MINUTE_MS,
            process=self._process,
        )
        if kind in self._counts or len(self._counts) < KINDS_MAX:
            self._counts[kind] += 1

    async def since(self, inbox: Inbox, *, after: int) -> list[RefusedMail]:
        """List what was refused to an inbox since the message of a number.

        What this process has refused is stored first: an answer without mail tells of it. Raises:
        UnavailableError.
        """
        await self.flush()
        place = RefusalPlace(inbox.workspace, inbox.id, after, inbox.created_ms)
        return await self._lists.ask(place) or []

    async def _list(self, places: Sequence[RefusalPlace]) -> dict[RefusalPlace, list[RefusedMail]]:
        return await self._database.read(
            lambda tx: refusals.of_places(tx, places, most=REFUSALS_MAX)
        )

    async def flush(self) -> None:
        """Store what was counted until now; where it fails, it is kept for the next time.

        What somebody else is storing was counted before as well, so that is waited for. Who is
        cancelled leaves the write to itself: nobody could tell whether it was committed.
        """
        if self._storing is not None:
            await asyncio.wait([self._storing])
        if self._storing is None and self._counts:
            self._storing = asyncio.create_task(self._store(), name="mail refusals")
        if self._storing is not None:
            await asyncio.shield(self._storing)

    async def _store(self) -> None:
        counts, self._counts = self._counts, Counter()
        try:
            unknown = await self._database.write(
                lambda tx: refusals.add_all(tx, counts), priority=Priority.MAINTENANCE
            )
        except BaseException:
            self._counts.update(counts)
            raise
        finally:
            self._storing = None
        self._tell(unknown)

    def _tell(self, unknown: Mapping[str, int]) -> None:
        """Count mail for domains that are nobody's, and log each of them once a minute.

        Anybody can make up domains: of each minute the first few are named.
        """
        self._metrics.smtp.unknown_domains.inc(sum(unknown.values()))
        minute = self._clock.now_ms() // MINUTE_MS
        if minute != self._logged_minute:
            self._logged_minute, self._logged = minute, set()
        for domain in sorted(unknown):
            if domain not in self._logged and len(self._logged) < LOGGED_DOMAINS_MAX:
                self._logged.add(domain)
                log.warning(UNKNOWN_MAIL_DOMAIN, domain=domain)
