"""Wiring of sends: from settings to the parts that submit, transmit and settle."""

from mailonce.clock import Clock
from mailonce.core.sends.dev_sender import dev_sender, find_dev_sender
from mailonce.core.sends.send_decision import SendRule
from mailonce.core.sends.sender import Sender
from mailonce.core.signatures.sealing import Sealer
from mailonce.inbox.keep_sends import SendKeeper
from mailonce.manage.dev_inboxes import DevInboxes
from mailonce.manage.records import sender_of
from mailonce.net.http import GuardedClient
from mailonce.net.transmit import Transmitter
from mailonce.pipeline.record import Recorder
from mailonce.queue.configuration import ConfigurationCache
from mailonce.queue.wake import Wakes
from mailonce.send.acts import SendActs
from mailonce.send.compose import Composer
from mailonce.send.database_time import DatabaseTime
from mailonce.send.drive_submissions import Submissions
from mailonce.send.flight_book import FlightBook
from mailonce.send.forget_sends import SendPurge
from mailonce.send.ledger_look import LedgerLook
from mailonce.send.operator_senders import OperatorSenders, host_of
from mailonce.send.pauses import PauseWatch
from mailonce.send.render import Renderer
from mailonce.send.send_service import SendService
from mailonce.send.sends import Sends, send_rule_of
from mailonce.send.step import ProviderCaller, SendParts
from mailonce.send.submit import StreamRule, SubmitRules, Submitter
from mailonce.send.templates import MailTemplates
from mailonce.send.unsubscribe import UnsubscribeLinks
from mailonce.service import Service
from mailonce.settings import Settings
from mailonce.store.dialects.contract import Database


def build_sends(
    database: Database,
    clock: Clock,
    sealer: Sealer,
    recorder: Recorder,
    configuration: ConfigurationCache,
    wakes: Wakes,
    settings: Settings,
    dev: DevInboxes,
) -> SendService:
    """Build what takes requests to send, and what the worker's steps share."""
    given = settings.sends
    time = DatabaseTime(database, clock)
    renderer = Renderer(limit_s=given.render_s)
    rules = SubmitRules(
        mail_bytes_max=given.mail_bytes_max,
        has_links=bool(settings.public_url),
        streams={
            name: StreamRule(**stream.model_dump()) for name, stream in settings.streams.items()
        },
        dev_sender=dev_sender if settings.dev else None,
        prepare=dev.prepare if settings.dev else None,
    )
    return SendService(
        submissions=Submissions(
            Submitter(database, clock, configuration, time, Composer(renderer), rules),
            recorder,
            LedgerLook(database),
        ),
        acts=SendActs(database, clock, time, configuration, wakes),
        templates=MailTemplates(database, clock, renderer),
        links=UnsubscribeLinks(
            database, sealer, clock, recorder.record, base_url=settings.base_url
        ),
        book=FlightBook(database, clock, time),
        purge=SendPurge(database, ledger_days=given.ledger_days, body_days=given.body_days),
        renderer=renderer,
    )


def build_send_work(service: Service, settings: Settings, dev: DevInboxes) -> Sends:
    """Let a worker send mail."""
    configuration = service.configuration
    has_links = bool(settings.public_url)

    def rule_of(sender: Sender) -> SendRule:
        following = None
        if sender.next_sender is not None:
            following = configuration.snapshot.find_sender(sender.workspace, sender.next_sender)
        return send_rule_of(sender, following, settle_s=settings.sends.settle_s)

    parts = SendParts(
        clock=service.clock,
        pauses=PauseWatch(service.clock.uptime),
        book=service.sends.book,
        caller=_caller(service, settings, dev),
        rule_of=rule_of,
        link_of=service.sends.links.link_of if has_links else lambda _: None,
        wake=lambda sender: service.wakes.owed([sender]),
    )
    find_sender = find_dev_sender if settings.dev else None
    return Sends(service.database, service.configuration, parts, find_sender)


def _caller(service: Service, settings: Settings, dev: DevInboxes) -> ProviderCaller:
    """Make what calls providers; a sender of the settings file may be on a private host."""
    if settings.dev:
        return SendKeeper(service.mail.acceptance, dev.find)
    now_ms = service.clock.now_ms
    guarded = Transmitter(service.client, now_ms=now_ms)
    service.closing.append(guarded.close)
    client = GuardedClient(**settings.net.of_client())
    trusting = Transmitter(client, now_ms=now_ms)
    service.closing += [trusting.close, client.close]
    caller = OperatorSenders(guarded, trusting)

    def use(given: Settings) -> None:
        places = {f"snr_{name}": sender_of(name, one) for name, one in given.senders.items()}
        caller.hosts = {id_: host for id_, one in places.items() if (host := host_of(one))}
        allow_hosts = [*given.net.allow_hosts, *caller.hosts.values()]
        client.allow(allow_hosts=allow_hosts, hosts=given.net.hosts)

    use(settings)
    service.on_settings.append(use)
    return caller
