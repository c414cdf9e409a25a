"""Wiring of mail: from settings to the parts that take it, read it, and expect something of it."""

from collections.abc import Collection
from functools import partial

from mailonce.clock import Clock
from mailonce.core.expectations.artifact import ArtifactKeys
from mailonce.core.signatures.file_link import FileLinks
from mailonce.core.signatures.sealing import Sealer
from mailonce.inbox.accept import MailAcceptance
from mailonce.inbox.digest_mail import DigestRules, Digests
from mailonce.inbox.expectations.expectation_parts import ExpectationParts, ExpectationRules
from mailonce.inbox.expectations.expectation_service import ExpectationService
from mailonce.inbox.expectations.match_messages import match_messages
from mailonce.inbox.expectations.sweep import ExpectationSweep
from mailonce.inbox.expectations.waiting import ExpectationWaiters
from mailonce.inbox.fetch_mail import MailFetcher
from mailonce.inbox.listening import Listening
from mailonce.inbox.mail_parts import MailParts
from mailonce.inbox.refusals import MailRefusals
from mailonce.inbox.sender_checks import build_sender_check
from mailonce.inbox.streams import InboxStreams
from mailonce.inbox.waiting import InboxReaders
from mailonce.net.http import GuardedClient
from mailonce.pipeline.record import Recorder
from mailonce.queue.purge_inboxes import InboxPurge
from mailonce.queue.wake import Wakes
from mailonce.send.database_time import DatabaseTime
from mailonce.service import Service
from mailonce.settings import Settings
from mailonce.store.dialects.contract import Database
from mailonce.telemetry import Metrics

# How long a link to an attachment is good.
FILE_LINK_S = 7 * 86_400


def build_mail(
    database: Database,
    clock: Clock,
    recorder: Recorder,
    master_keys: list[str],
    settings: Settings,
    *,
    metrics: Metrics,
) -> MailParts:
    """Build what takes mail, and what reads inboxes."""
    refusals = MailRefusals(database, clock, metrics, process=clock.new_id())
    readers = InboxReaders(database, clock)
    kept = settings.inboxes
    purge = InboxPurge(
        database,
        unmatched_mails_max=kept.unmatched_mails_max,
        unmatched_days=kept.unmatched_days,
    )
    acceptance = MailAcceptance(database, clock, recorder, refusals)
    return MailParts(
        acceptance,
        readers,
        refusals,
        purge,
        _links(settings, master_keys),
        Listening(database, clock, process=clock.new_id()),
        InboxStreams(readers, streams_max=kept.streams_max),
    )


def build_expectations(
    database: Database,
    clock: Clock,
    sealer: Sealer,
    master_keys: list[str],
    client: GuardedClient,
    recorder: Recorder,
    wakes: Wakes,
    mail: MailParts,
    metrics: Metrics,
    settings: Settings,
) -> ExpectationService:
    """Build what opens expectations, matches mail with them, and hands artifacts out.

    Whoever waits for mail or for an expectation is woken by what any process publishes.
    """
    parts = ExpectationParts(
        database=database,
        clock=clock,
        sealer=sealer,
        keys=ArtifactKeys(master_keys),
        client=client,
        now_ms=DatabaseTime(database, clock).now_ms,
        publish=wakes.publish,
        metrics=metrics.expectations,
        rules=ExpectationRules(**settings.expectations.model_dump()),
    )
    waiters = ExpectationWaiters(parts, clock)

    def wake(topics: Collection[str] | None) -> None:
        mail.readers.wake(topics)
        waiters.wake(topics)

    wakes.on_topics = wake
    return ExpectationService(parts, waiters, ExpectationSweep(parts, recorder.record))


def build_digests(service: Service, settings: Settings, master_keys: list[str]) -> Digests:
    """Let a worker read mail, and match it with expectations."""
    return Digests(
        service.database,
        service.recorder.record,
        service.wakes.publish,
        MailFetcher(service.client, service.clock, lambda: service.snapshot.sources).fetch,
        digest_rules(settings, master_keys),
        partial(match_messages, service.expectations.parts),
        build_sender_check(
            is_wanted=settings.inboxes.check_senders,
            nameservers=settings.net.nameservers,
            trusted_servers=settings.inboxes.trusted_servers,
        ),
    )


def digest_rules(settings: Settings, master_keys: list[str]) -> DigestRules:
    """Give what reading a mail needs beside it."""
    return DigestRules(_links(settings, master_keys), tuple(settings.inboxes.trusted_servers))


def _links(settings: Settings, master_keys: list[str]) -> FileLinks:
    return FileLinks(master_keys, base_url=settings.base_url, lifetime_s=FILE_LINK_S)
