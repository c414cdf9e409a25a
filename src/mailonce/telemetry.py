"""The names of every log event and metric, and how metrics leave the process."""

from collections.abc import Iterable, Mapping
from functools import partial

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import Metric

from mailonce.errors import MailonceError

# Log events. Their fields are ids and counts, never addresses, bodies or secrets.
ADMIN_KEY_SET = "admin_key_set"
HANDLER_FAILED = "handler_failed"
HANDLER_MISSING = "handler_missing"
APP_WITHOUT_HANDLERS = "app_without_handlers"
RELOAD_REFUSED = "reload_refused"
SETTINGS_RELOADED = "settings_reloaded"
NOT_IN_FILE_OFF = "not_in_file_switched_off"
STARTED = "started"
START_FAILED = "start_failed"
LISTENING = "listening"
PRIVATE_FILE_WRITTEN = "private_file_written"
LIBRARY_LOG = "library_log"
STOPPED = "stopped"
RETENTION_CHANGED = "retention_changed"
CLOCK_SET_BACK = "clock_set_back"
CLOCK_LEAPED = "clock_leaped"
PRUNING_WAITS = "pruning_waits"
STOP_CUT_SHORT = "stop_cut_short"
BATCH_FAILED = "batch_failed"
BATCH_SPLIT = "batch_split"
ARRIVAL_REFUSED = "arrival_refused"
UNKNOWN_SOURCE = "unknown_source"
UNKNOWN_MAIL_DOMAIN = "unknown_mail_domain"
ARRIVAL_DEAD = "arrival_dead"
CONFLICT_KEPT = "conflict_kept"
CONFIRMED = "subscription_confirmed"
PRUNED = "pruned"
MAINTENANCE_FAILED = "maintenance_failed"
ALARM_RAISED = "alarm_raised"
ALARM_CLEARED = "alarm_cleared"
CONFIGURATION_LOADED = "configuration_loaded"
CLOCKS_DIFFER = "clocks_differ"
SECRETS_UNREADABLE = "secrets_unreadable"
DATA_DIR_SHARED = "data_dir_shared"
OTHER_DATABASE = "other_database_in_folder"
MASTER_KEY_MADE = "master_key_made"
VARIABLE_UNKNOWN = "variable_unknown"
MASTER_KEY_SHORT = "master_key_short"
RERUN_FAILED = "rerun_failed"
RERUN_FINISHED = "rerun_finished"
UNEXPECTED = "unexpected_error"
DATABASE_UNAVAILABLE = "database_unavailable"
DATABASE_AVAILABLE = "database_available"
DOOR_REFUSED = "door_refused"
SMTP_CERTIFICATE_LOADED = "smtp_certificate_loaded"
SMTP_CERTIFICATE_UNREADABLE = "smtp_certificate_unreadable"
SMTP_PORT_TAKEN = "smtp_port_taken"
FILES_EXHAUSTED = "files_exhausted"
FILES_FEW = "files_few"
WORKER_STALLED = "worker_stalled"
WORKER_GONE = "worker_gone"
WAKE_FAILED = "wake_failed"
FINISH_FAILED = "finish_failed"
RESULTS_FENCED = "results_fenced"
LEASES_LOST = "leases_lost"
DELIVERY_DEAD = "delivery_dead"
DEAD_LETTER_DISMISSED = "dead_letter_dismissed"
MAIL_DEAD = "mail_dead"
MATCH_FAILED = "match_failed"
DIGEST_FAILED = "digest_failed"
ROUTE_SWITCHED_OFF = "route_switched_off"
SEND_UNBUILT = "send_unbuilt"
SEND_UNKNOWN = "send_unknown"
SENDS_GIVEN_UP = "sends_given_up"
BREAKER_OPENED = "breaker_opened"
BREAKER_CLOSED = "breaker_closed"

# Labels that name what belongs to one workspace.
NAMES = frozenset({"source", "route"})
INFOS = frozenset({"mailonce_source_info", "mailonce_route_info"})

log: structlog.stdlib.BoundLogger = structlog.get_logger("mailonce")


class SourceCounters:
    """The busiest counters of one source: plain numbers, read when metrics are rendered.

    A counter of the library takes a lock each time, which costs more than the counting.
    """

    __slots__ = ("by_status", "copies", "events")

    def __init__(self) -> None:
        self.by_status: dict[str, int] = {}
        self.events = 0
        self.copies = 0

    def count(self, status: str, *, new: int, copies: int) -> None:
        self.by_status[status] = self.by_status.get(status, 0) + 1
        self.events += new
        self.copies += copies


class DoorMetrics:
    """Counters of the connections of one door of a process."""

    def __init__(self, registry: CollectorRegistry, *, door: str = "http") -> None:
        self.door = door
        prefix = "mailonce_" if door == "http" else f"mailonce_{door}_"
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        self.connections = gauge(f"{prefix}connections", "Open connections, as seen each second.")
        self.held_bytes = gauge(
            f"{prefix}held_bytes", "Bytes of requests or mails that are half sent or unanswered."
        )
        about = "Clients refused or disconnected by a limit of the door."
        self.refusals = counter(f"{prefix}door_refusals", about, ("reason",))
        about = "Arrivals or mails that could not be taken; their senders were asked to try again."
        self._unavailable = counter(f"{prefix}unavailable", about, ("reason",))
        for reason in ("database", "full", "locked", "other", "unexpected"):
            # A counter that begins at its first count shows no increase for it.
            self._unavailable.labels(reason)

    def count_unavailable(self, error: Exception) -> None:
        """Count an arrival or a mail that this error kept from being taken now."""
        unnamed = "other" if isinstance(error, MailonceError) else "unexpected"
        self._unavailable.labels(getattr(error, "reason", unnamed)).inc()


class SmtpMetrics:
    """Counters of the SMTP door of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter = partial(Counter, registry=registry)
        self.door = DoorMetrics(registry, door="smtp")
        mails = counter(
            "mailonce_smtp_mails", "Mails that came whole, by what they were answered.", ("result",)
        )
        self.accepted, self.refused = mails.labels("accepted"), mails.labels("refused")
        self._bytes = counter("mailonce_smtp_mail_bytes", "Bytes of the mails that were accepted.")
        self._recipients = counter(
            "mailonce_smtp_recipients_refused", "Recipients that were refused.", ("reason",)
        )
        self.unknown_domains = counter(
            "mailonce_smtp_unknown_domains",
            "Recipients refused since their domain is none of ours.",
        )
        self._seconds = Histogram(
            "mailonce_smtp_store_seconds", "Time from the end of a mail to its reply.",
            registry=registry, buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5, 30),
        )  # fmt: skip

    def stored(self, mail_bytes: int, seconds: float) -> None:
        """Count a mail that was accepted."""
        self.accepted.inc()
        self._bytes.inc(mail_bytes)
        self._seconds.observe(seconds)

    def recipient_refused(self, reason: str) -> None:
        """Count a recipient that is not ours, or takes no mail now."""
        self._recipients.labels(reason).inc()


class OutgoingMetrics:
    """Counters of the deliveries of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        self._attempts = counter(
            "mailonce_attempts", "Attempts at deliveries by outcome.", ("route", "end")
        )
        # By route and end: finding the counter of a label takes longer than counting.
        self._attempts_of: dict[tuple[str, str], Counter] = {}
        self.attempt_seconds = Histogram(
            "mailonce_attempt_seconds", "Time that an endpoint took.", registry=registry,
            buckets=(0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30),
        )  # fmt: skip
        self.fenced = counter(
            "mailonce_results_fenced", "Results dropped because their lease was lost."
        )
        self.oldest_due_seconds = gauge(
            "mailonce_oldest_due_seconds", "How long the oldest pending delivery has waited."
        )
        self.breaker_open = gauge(
            "mailonce_breaker_open", "1 while an endpoint is taken to be down.", ("route",)
        )

    def count_attempt(self, route: str, end: str) -> None:
        """Count an attempt that ended in this way."""
        counter = self._attempts_of.get((route, end))
        if counter is None:
            counter = self._attempts_of[route, end] = self._attempts.labels(route, end)
        counter.inc()


class ExpectationMetrics:
    """Counters of expectations, as this process changed them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter = partial(Counter, registry=registry)
        self._opened = counter("mailonce_expectations_opened", "Expectations by kind.", ("kind",))
        self._moved = counter(
            "mailonce_expectation_states", "States that expectations came to.", ("state",)
        )
        self._resends = counter(
            "mailonce_resends_asked", "Questions for a resend by their answer.", ("answer",)
        )
        self._redeemed = counter(
            "mailonce_redemptions", "Links that were requested, by outcome.", ("outcome",)
        )
        self._unconfirmed = counter(
            "mailonce_consumptions_unconfirmed", "Leases of artifacts that ended without a word."
        )

    def opened(self, kind: str) -> None:
        self._opened.labels(kind).inc()

    def moved(self, state: str) -> None:
        self._moved.labels(state).inc()

    def resend(self, answer: str) -> None:
        self._resends.labels(answer).inc()

    def redeemed(self, outcome: str) -> None:
        self._redeemed.labels(outcome).inc()

    def unconfirmed(self, many: int) -> None:
        self._unconfirmed.inc(many)


class Metrics:
    """Counters of one process; `render` gives Prometheus' text."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        labels = ("source",)
        self.arrivals = counter(
            "mailonce_arrivals", "Arrivals by their status.", ("source", "status")
        )
        self.events = counter("mailonce_events", "Events seen for the first time.", labels)
        self.copies = counter("mailonce_copies", "Events that were copies of known ones.", labels)
        self.copies_by_content = counter(
            "mailonce_copies_by_content", "Copies that had a new event id.", labels
        )
        self.conflicts = counter(
            "mailonce_conflicts", "Arrivals with other content under a known key.", labels
        )
        self.refusals = counter("mailonce_refusals", "Arrivals refused.", ("source", "reason"))
        self.dead_letters = counter(
            "mailonce_dead_letters", "Arrivals or elements kept as dead letters.", labels
        )
        self.dead_letters_open = gauge(
            "mailonce_dead_letters_open", "Dead letters that are not resolved."
        )
        self.sends_unknown = gauge(
            "mailonce_sends_unknown", "Sends whose outcome is unknown; counted up to 10,000."
        )
        self.sends_need_person = gauge(
            "mailonce_sends_need_person",
            "Unknown sends that only a person can settle; counted up to 10,000.",
        )
        self.ready = gauge("mailonce_ready", "1 where /readyz says ready: a write commits now.")
        self.unknown_sources = counter(
            "mailonce_unknown_sources", "Requests to /in/ that name no source."
        )
        self.alarms = gauge(
            "mailonce_alarm", "1 while a source is silent or refusing.", ("source", "kind")
        )
        self._source_info = gauge(
            "mailonce_source_info", "1 for each source: its id and its name.", ("source", "name")
        )
        self._route_info = gauge(
            "mailonce_route_info", "1 for each route: its id and its name.", ("route", "name")
        )
        self.queued = gauge("mailonce_queued_arrivals", "Arrivals that wait for a batch.")
        self.batch_events = Histogram(
            "mailonce_batch_events", "Events in a batch.", registry=registry,
            buckets=(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000),
        )  # fmt: skip
        self.commit_seconds = Histogram(
            "mailonce_commit_seconds", "Time to make a batch durable.", registry=registry,
            buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
        )  # fmt: skip
        self.unreadable_secrets = gauge(
            "mailonce_unreadable_secrets",
            "Sources and routes whose secrets no master key of this process opens.",
        )
        self.clock_skew = gauge(
            "mailonce_clock_skew_seconds", "This process's clock minus the database's."
        )

        self.outgoing = OutgoingMetrics(self.registry)
        self.door = DoorMetrics(self.registry)
        self.smtp = SmtpMetrics(self.registry)
        self.expectations = ExpectationMetrics(self.registry)
        self._of_source: dict[str, SourceCounters] = {}
        self._named: frozenset[str] = frozenset()
        # The ids of sources and routes that had a name once, and have been removed.
        self._removed: frozenset[str] = frozenset()

    def name_records(self, sources: Mapping[str, str], routes: Mapping[str, str]) -> None:
        """Give the name of each source and route beside its id, by which the others count.

        What had a name before and has none now was removed, and is not shown any more.
        """
        named = frozenset((*sources, *routes))
        self._removed, self._named = (self._removed | self._named) - named, named
        for info, names in ((self._source_info, sources), (self._route_info, routes)):
            info.clear()
            for id_, name in names.items():
                info.labels(id_, name).set(1)
        for source in sources:
            # A counter that begins at its first count shows no increase for it, and a rule that
            # compares refusals with arrivals says nothing of a source that never took any.
            self.arrivals.labels(source, "accepted")
            self.conflicts.labels(source)
            self.dead_letters.labels(source)

    def of_source(self, source: str) -> SourceCounters:
        counters = self._of_source.get(source)
        if counters is None:
            counters = self._of_source[source] = SourceCounters()
        return counters

    def render(self, *, is_named: bool, only: frozenset[str] | None = None) -> bytes:
        """Write all metrics as text; without names, sums over all sources and routes.

        `only`: the ids of those that are named; others are left out.
        """
        counted, self._of_source = self._of_source, {}
        for source, counters in counted.items():
            for status, arrivals in counters.by_status.items():
                self.arrivals.labels(source, status).inc(arrivals)
            self.events.labels(source).inc(counters.events)
            self.copies.labels(source).inc(counters.copies)
        current = _CurrentRegistry(
            self.registry, self._removed, only=only, keeps_counters=not is_named
        )
        return generate_latest(current if is_named else _SummedRegistry(current))


class _CurrentRegistry(CollectorRegistry):
    """Shows another registry without the sources and routes that were removed.

    `only`: the ids of those that are shown; None is all of them. `keeps_counters`: those of what
    was removed stay in a sum, which would look like a restart if it fell.
    """

    def __init__(
        self,
        every: CollectorRegistry,
        removed: frozenset[str],
        *,
        only: frozenset[str] | None,
        keeps_counters: bool,
    ) -> None:
        super().__init__()
        self._every = every
        self._removed = removed
        self._only = only
        self._keeps_counters = keeps_counters

    def collect(self) -> Iterable[Metric]:
        """Give each metric with the samples of what is there."""
        for metric in self._every.collect():
            if metric.type != "counter" or not self._keeps_counters:
                metric.samples = [sample for sample in metric.samples if self._shows(sample.labels)]
            yield metric

    def _shows(self, labels: Mapping[str, str]) -> bool:
        ids = {labels[name] for name in NAMES & labels.keys()}
        return not ids & self._removed and (self._only is None or ids <= self._only)


class _SummedRegistry(CollectorRegistry):
    """Shows another registry without what names a source or route."""

    def __init__(self, named: CollectorRegistry) -> None:
        super().__init__()
        self._named = named

    def collect(self) -> Iterable[Metric]:
        """Give each metric with its samples added up over the names."""
        for metric in self._named.collect():
            if metric.name in INFOS:
                continue
            sums: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
            for sample in metric.samples:
                kept = tuple(pair for pair in sample.labels.items() if pair[0] not in NAMES)
                # A sum of creation times would be nonsense.
                if not sample.name.endswith("_created"):
                    sums[sample.name, kept] = sums.get((sample.name, kept), 0.0) + sample.value
            summed = Metric(metric.name, metric.documentation, metric.type)
            for (name, labels), value in sums.items():
                summed.add_sample(name, dict(labels), value)
            yield summed
