"""Sends as a kind of work: a lane is a sender, as the configuration has it."""

import asyncio
from collections.abc import Callable

from mailonce.core.sends.send_decision import SendRule
from mailonce.core.sends.send_lifecycle import SendState
from mailonce.core.sends.sender import Sender
from mailonce.core.sends.settle_rule import SettleRule
from mailonce.core.work.job import AttemptOutcome, LeasedJob
from mailonce.core.work.retry_rule import WorkRule
from mailonce.core.work.states import State
from mailonce.errors import MailonceError
from mailonce.providers import sending
from mailonce.queue.configuration import ConfigurationCache
from mailonce.queue.work import LaneSettings, RunResult
from mailonce.send.settle_unknown import settle
from mailonce.send.step import SendParts, StepCase, no_news
from mailonce.send.transmit import give_up, transmit
from mailonce.store.dialects.contract import Database
from mailonce.store.schema.send_tables import SEND_TABLE
from mailonce.telemetry import SENDS_GIVEN_UP, UNEXPECTED, log

# Of a sender's calls at once, one in so many is left to mail of high priority.
RESERVED_SHARE = 8


class Sends:
    """Sends: mails for senders."""

    table = SEND_TABLE

    def __init__(
        self,
        database: Database,
        configuration: ConfigurationCache,
        parts: SendParts,
        find_sender: Callable[[str], Sender | None] | None = None,
    ) -> None:
        self._configuration = configuration
        self._parts = parts
        # By its id: whom this process may send for; None: all senders of the configuration.
        self._find_sender = find_sender
        self.leases = database.leases(SEND_TABLE)
        # The lanes that were asked for since the configuration was read.
        self._lanes: dict[str, LaneSettings] = {}
        configuration.on_load.append(self._lanes.clear)

    def find(self, lane: str) -> LaneSettings | None:
        """Find a sender that this process can use, with today's configuration."""
        settings = self._lanes.get(lane)
        if settings is None:
            known = self._configuration.snapshot.senders.get
            sender = (self._find_sender or known)(lane)
            if sender is None or sender.is_unreadable or sending.find(sender.provider) is None:
                return None
            settings = LaneSettings(sender.workspace, work_rule_of(sender), sender)
            self._lanes[lane] = settings
        return settings

    def then(self, changed: Callable[[], None]) -> None:
        self._configuration.on_load.append(changed)

    async def run(self, lane: LaneSettings, job: LeasedJob) -> RunResult:
        """Take the next step of a send; it ends its lease itself.

        What fails before anything was begun gives the lease back.
        """
        try:
            return await self._step(lane, job)
        except (MailonceError, asyncio.CancelledError):
            return AttemptOutcome(is_untried=True)

    async def _step(self, lane: LaneSettings, job: LeasedJob) -> RunResult:
        sender: Sender = lane.subject
        of_provider = sending.find(sender.provider)
        assert of_provider is not None, "a lane is found only where its provider is known"
        send = await self._parts.book.read(job.key)
        if send is None or send.token != job.token or send.state != State.LEASED:
            return no_news("fenced")
        now_ms = await self._parts.book.time.now_ms()
        case = StepCase(self._parts, sender, of_provider, job, send, now_ms)
        try:
            if send.send_state == SendState.PENDING:
                return await transmit(case)
            return await settle(case)
        except MailonceError:
            raise
        except Exception as error:  # noqa: BLE001 - a mistake of ours must not come round for ever
            name = type(error).__name__
            log.error(UNEXPECTED, where="send", error=name, exc_info=error)
            return await give_up(case, reason=f"unexpected {name}")

    async def switch_off(self, lane: str, reason: str) -> None:
        """Nothing that a provider answers switches a sender off."""

    def note_dead(self, lane: str, reason: str, *, key: bytes | None = None, many: int = 1) -> None:
        """Log what was given up."""
        del key
        log.warning(SENDS_GIVEN_UP, sender=lane, reason=reason, sends=many)


def work_rule_of(sender: Sender) -> WorkRule:
    """Say how the worker treats a sender's lane."""
    return WorkRule(
        waits_s=sender.waits_s,
        deadline_s=sender.deadline_s,
        timeout_s=sender.timeout_s,
        attempt_s_max=sender.call_s_max,
        concurrency=sender.concurrency,
        rate_per_s=sender.rate_per_s,
        reserved=max(1, sender.concurrency // RESERVED_SHARE),
        off=sender.off,
    )


def send_rule_of(sender: Sender, next_: Sender | None, *, settle_s: float) -> SendRule:
    """Say how a sender tries and settles, and who takes over."""
    of_provider = sending.find(sender.provider)
    native = None if of_provider is None else of_provider.native
    return SendRule(
        work=work_rule_of(sender),
        settle=SettleRule(
            safe_s=None if native is None else native.safe_s,
            has_lookup=of_provider is not None and of_provider.lookup is not None,
            mode=sender.mode,
            settle_s=settle_s,
        ),
        next_sender=None if next_ is None else next_.id,
        next_deadline_s=0 if next_ is None else next_.deadline_s,
    )
