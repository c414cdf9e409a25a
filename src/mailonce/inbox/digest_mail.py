"""Digest mail: read what was accepted, and keep the message in its inbox.

A mail's row is the work of reading it. An attempt reads the bytes, and records what they say by the
group commit: the message, its attachments, the `inbound` event and the deliveries that it owes, in
one transaction. Then the expectations of its inbox judge it, and the lease is ended. All ids come
from the mail's own id and content, so a second reading, after a crash in between, finds everything
there and writes nothing, and judges what was not judged.

What is wrong with a mail is named in its message. What is wrong with us is tried again, for an
hour; then the mail is a dead letter, and those that came after it are shown.
"""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple

import orjson
from msgspec import structs

from mailonce.core.events.event import Event, EventType, detail_of, fitted
from mailonce.core.events.key import WHOLE, EventKeys, Fingerprint, Identity, Key, KeyScope
from mailonce.core.ids import ArrivalId, EventId, nth_event_id
from mailonce.core.inboxes.mail_items import DIGEST_DEADLINE_S, FETCH_LANES, LANES, BlobRow
from mailonce.core.inboxes.message_items import (
    AttachmentRow,
    FetchedContent,
    MessageItem,
    MessageRow,
)
from mailonce.core.ledger.entry import Candidate, Entry, EventOrigin
from mailonce.core.mail.digest import MailDigest, digest
from mailonce.core.mail.incoming import (
    Authentication,
    ContentFormat,
    FetchContent,
    FieldsContent,
    MailEnvelope,
    MailFacts,
    MimeContent,
    read_content,
    read_facts,
    stored_content,
    with_authentication,
)
from mailonce.core.mail.message import document, message_id_of
from mailonce.core.mail.problem import MailProblem
from mailonce.core.signatures.file_link import FileLinks
from mailonce.core.work.job import AttemptOutcome, LeasedJob
from mailonce.core.work.response_outcome import GiveUp, judge
from mailonce.core.work.retry_rule import WorkRule
from mailonce.errors import MailonceError
from mailonce.inbox.report_events import REPORTED, bounce_events, unread_event
from mailonce.queue.work import LaneSettings
from mailonce.store.dialects.contract import Database, Priority
from mailonce.store.inboxes import messages
from mailonce.store.inboxes.delivery_bodies import erase_bodies
from mailonce.store.inboxes.messages import MailToRead
from mailonce.store.schema.mail_tables import DIGEST_TABLE
from mailonce.telemetry import DIGEST_FAILED, MAIL_DEAD, log

RULE = WorkRule(
    waits_s=(0.5, 2, 10, 30, 60, 300, 600, 900, 900),
    deadline_s=DIGEST_DEADLINE_S,
    timeout_s=30.0,
    concurrency=4,
)
DONE = AttemptOutcome(status=200)
# Larger mail is read beside the event loop, so that others do not wait for it.
INLINE_BYTES_MAX = 16 << 10
LARGE_BYTES = 1 << 20
LARGE_AT_ONCE = 2
# What an index can hold on each database.
INDEXED_CHARS_MAX = 300
SUBJECT_CHARS_MAX = 1_000
# Behind the events of a mail that was read after all.
UNREAD_POSITION = 1 << 20

Readable = MimeContent | FieldsContent
# Fetches what a provider handed over by reference. Raises: MailonceError.
Fetch = Callable[[MailToRead, FetchContent], Awaitable[Readable]]
# Matches what is new in an inbox with its expectations. Raises: MailonceError.
Match = Callable[[str], Awaitable[None]]
# Checks who sent a mail; what cannot be found out now is a result as well.
CheckSender = Callable[[bytes, MailEnvelope], Awaitable[Authentication | None]]


@dataclasses.dataclass(frozen=True, slots=True)
class DigestRules:
    """What reading a mail needs beside it.

    `trusted_servers` are the names of mail servers in front of us whose `Authentication-Results`
    are believed.
    """

    links: FileLinks
    trusted_servers: tuple[str, ...] = ()


class Digests:
    """The reading of mail as a kind of work.

    A lane has the mail of some of the inboxes, or that to be fetched for some of the sources.
    """

    table = DIGEST_TABLE

    def __init__(
        self,
        database: Database,
        record: Callable[[Entry], Awaitable[object]],
        publish: Callable[[Collection[str]], None],
        fetch: Fetch,
        rules: DigestRules,
        match: Match,
        check_sender: CheckSender | None = None,
    ) -> None:
        self._database = database
        self._record = record
        self._publish = publish
        self._fetch = fetch
        self._rules = rules
        self._match = match
        self._check_sender = check_sender
        self._large = asyncio.Semaphore(LARGE_AT_ONCE)
        self.leases = database.leases(DIGEST_TABLE)

    def find(self, lane: str) -> LaneSettings | None:
        """Find a lane; none has one endpoint, and a fetch that fails waits by itself.

        Retries at a source that hangs leave one place to new mail of another one of their lane.
        """
        is_known = lane in LANES or lane in FETCH_LANES
        rule = dataclasses.replace(RULE, reserved=int(lane in FETCH_LANES))
        return LaneSettings("", rule, has_breaker=False) if is_known else None

    def then(self, changed: Callable[[], None]) -> None:
        """Call nobody: the lanes of mail never change."""

    async def run(self, lane: LaneSettings, job: LeasedJob) -> AttemptOutcome | None:
        """Read one mail, unless it was deleted or an earlier attempt read it.

        One to be fetched that a process of an older version left in a lane of inboxes is moved.
        """
        del lane
        mail = await self._database.read(lambda tx: messages.mail(tx, job.key))
        if mail is None or mail.seq is None:
            return DONE
        if mail.message is not None or mail.content is None:
            return await self._matched(mail)
        try:
            if mail.format == ContentFormat.FETCH and job.route in LANES:
                moving = partial(messages.move, mail=mail, token=job.token)
                await self._database.write(moving, priority=Priority.WORKER)
                return AttemptOutcome(is_untried=True)
            content = read_content(ContentFormat(mail.format), mail.content)
            if isinstance(content, FetchContent):
                content = await self._fetch(mail, content)
                # From here on it is a mail like any other: what was fetched is its raw form.
                mail = await self._checked(_with_content(mail, content), content)
                entry = with_fetched(await self._entry(mail, content), mail)
            else:
                mail = await self._checked(mail, content)
                entry = await self._entry(mail, content)
            await self._record(entry)
            self._publish([mail.inbox])
            await self._erase_if_deleted(entry)
        except MailonceError as error:
            return await self._failed(mail, job, f"{error.code}: {error}")
        return await self._matched(mail)

    async def _failed(self, mail: MailToRead, job: LeasedJob, error: str) -> AttemptOutcome:
        """Say what went wrong; of a mail that is given up, routes are told by an event."""
        outcome = AttemptOutcome(error=error)
        verdict = judge(outcome, RULE, step=job.step, left_ms=job.left_ms, dice=1)
        if not isinstance(verdict, GiveUp):
            return outcome
        event = unread_event(mail, error)
        key = KeyScope(mail.workspace, "mail", mail.inbox).key(["unread", mail.key.hex()])
        one = _candidate(event, nth_event_id(ArrivalId(mail.key), UNREAD_POSITION), key)
        try:
            await self._record(_new_entry(mail, mail.key.hex(), (one,)))
        except MailonceError:
            # Without the database nothing can be given up either: the lease runs out, and again.
            return outcome
        return AttemptOutcome(error=error, dead_reason=verdict.reason)

    async def _matched(self, mail: MailToRead) -> AttemptOutcome:
        """Let expectations judge the message; until they have, the mail's work is not done.

        One that was opened since has a watermark behind this mail.
        """
        if not mail.is_expected:
            return DONE
        try:
            await self._match(mail.inbox)
        except MailonceError as error:
            return AttemptOutcome(error=f"{error.code}: {error}")
        return DONE

    async def _erase_if_deleted(self, entry: Entry) -> None:
        """Erase what was just made for routes of a mail that was deleted while it was read."""
        if not entry.events:
            return
        workspace, message = entry.workspace, entry.arrival_key
        if await self._database.read(lambda tx: messages.exists(tx, workspace, message)):
            return
        await self._database.write(
            lambda tx: erase_bodies(tx, workspace, [message]), priority=Priority.WORKER
        )

    async def switch_off(self, lane: str, reason: str) -> None:
        """Switch nothing off: reading mail has no endpoint."""

    def note_dead(self, lane: str, reason: str, *, key: bytes | None = None, many: int = 1) -> None:
        which: dict[str, object] = {"mails": many} if key is None else {"mail": key.hex()}
        log.error(MAIL_DEAD, lane=lane, reason=reason, **which)

    async def _checked(self, mail: MailToRead, content: Readable) -> MailToRead:
        """Add our own checks of who sent a mail, where they are wanted and nobody else made any."""
        facts = read_facts(mail.facts)
        if (
            self._check_sender is None
            or facts.authentication is not None
            or not isinstance(content, MimeContent)
        ):
            return mail
        result = await self._check_sender(content.raw, facts.envelope)
        return mail._replace(facts=with_authentication(mail.facts, result))

    async def _entry(self, mail: MailToRead, content: Readable) -> Entry:
        assert mail.content is not None, "mail without content is not read"
        if len(mail.content) <= INLINE_BYTES_MAX:
            return entry_of(mail, content, self._rules)
        if len(mail.content) <= LARGE_BYTES:
            return await asyncio.to_thread(entry_of, mail, content, self._rules)
        # Each may take many times its size in memory.
        async with self._large:
            return await asyncio.to_thread(entry_of, mail, content, self._rules)


class MailReading(NamedTuple):
    """What was read from a mail: the message as it is shown, its events, and what is kept."""

    shown: Mapping[str, Any]
    events: list[Event]
    item: MessageItem


def read_mail(mail: MailToRead, content: Readable, rules: DigestRules) -> MailReading:
    """Read a mail with today's code; one that was read before keeps its id."""
    facts = read_facts(mail.facts)
    reading = _read(mail, content, facts, rules.trusted_servers)
    message = mail.message or message_id_of(mail.workspace, mail.inbox, reading.fingerprint)
    assert mail.seq is not None, "mail without a number has no inbox"
    shown = document(
        reading,
        id=message,
        inbox=mail.inbox,
        address=mail.address,
        seq=mail.seq,
        received_ms=mail.made_ms,
        envelope=facts.envelope,
        authentication=facts.authentication,
        spam=facts.spam,
        raw_bytes=len(mail.content or b""),
        raw_sha256=bytes(mail.sha256),
        source={"id": mail.source, "account": mail.account},
    )
    events = [_inbound(mail, shown, reading, rules.links), *bounce_events(reading)]
    return MailReading(shown, events, _item(mail, shown, reading))


def entry_of(mail: MailToRead, content: Readable, rules: DigestRules) -> Entry:
    """Read a mail, and make the entry that records its message."""
    shown, events, item = read_mail(mail, content, rules)
    scope = KeyScope(mail.workspace, "mail", mail.inbox)
    arrival = ArrivalId(mail.key)
    candidates = [
        _candidate(
            event,
            nth_event_id(arrival, number),
            scope.key(["event", shown["id"], number]),
            origin=None if event.type is EventType.INBOUND else REPORTED,
        )
        for number, event in enumerate(events)
    ]
    entry = _new_entry(mail, shown["id"], tuple(candidates))
    return structs.replace(entry, items=(item,))


def _new_entry(mail: MailToRead, arrival_key: str, candidates: tuple[Candidate, ...]) -> Entry:
    """Make an entry that goes on with a mail which was accepted before."""
    return Entry(
        id=ArrivalId(mail.key),
        workspace=mail.workspace,
        source=mail.source,
        account=mail.account,
        arrival_key=arrival_key,
        body=b"",
        headers=b"{}",
        signs_body=False,
        events=candidates,
        is_arrival=False,
    )


def _with_content(mail: MailToRead, content: Readable) -> MailToRead:
    format_, stored = stored_content(content)
    return mail._replace(content=stored, format=str(format_), sha256=sha256(stored).digest())


def with_fetched(entry: Entry, mail: MailToRead) -> Entry:
    """Keep what was fetched with the mail, so that it can be read again and downloaded."""
    assert mail.content is not None, "what was fetched is there"
    fetched = FetchedContent(mail.sha256, mail.format, mail.content)
    [item] = entry.items
    assert isinstance(item, MessageItem), "reading a mail makes one message"
    return structs.replace(entry, items=(dataclasses.replace(item, fetched=fetched),))


def _read(
    mail: MailToRead, content: Readable, facts: MailFacts, trusted_servers: Sequence[str]
) -> MailDigest:
    try:
        return digest(content, facts.envelope, trusted_servers=trusted_servers)
    except Exception as error:  # noqa: BLE001 - a mistake of ours must not hold up the inbox
        log.error(DIGEST_FAILED, mail=mail.key.hex(), error=type(error).__name__, exc_info=error)
        empty = digest(MimeContent(b""), facts.envelope)
        fingerprint = sha256(b"unreadable" + bytes(mail.sha256)).digest()
        return structs.replace(empty, problems=(MailProblem.UNREADABLE,), fingerprint=fingerprint)


def _item(mail: MailToRead, shown: Mapping[str, Any], reading: MailDigest) -> MessageItem:
    message, sender = shown["id"], shown["from"] or {}
    assert mail.seq is not None, "mail without a number has no inbox"
    row = MessageRow(
        id=message,
        workspace=mail.workspace,
        inbox=mail.inbox,
        seq=mail.seq,
        mail=mail.key,
        accepted_ms=mail.made_ms,
        message_id=(reading.message_id or "")[:INDEXED_CHARS_MAX],
        thread=(reading.thread or "")[:INDEXED_CHARS_MAX],
        kind=str(reading.kind),
        sender=(sender.get("address") or "").lower()[:INDEXED_CHARS_MAX],
        subject=(reading.subject or "")[:SUBJECT_CHARS_MAX],
        document=orjson.dumps(shown),
    )
    files = list(zip(shown["attachments"], reading.attachments, strict=True))
    return MessageItem(
        row,
        attachments=tuple(
            [
                AttachmentRow(
                    message,
                    position,
                    mail.workspace,
                    file["id"],
                    one.sha256,
                    one.name or "",
                    one.type,
                    len(one.content),
                    one.content_id,
                )
                for position, (file, one) in enumerate(files)
            ]
        ),
        blobs=tuple([BlobRow(mail.workspace, one.sha256, one.content) for _, one in files]),
    )


def _inbound(
    mail: MailToRead, shown: Mapping[str, Any], reading: MailDigest, links: FileLinks
) -> Event:
    attachments = [
        {**file, "url": links.url(mail.workspace, shown["id"], file["id"], now_ms=mail.made_ms)}
        for file in shown["attachments"]
    ]
    files = zip(attachments, reading.attachments, strict=True)
    return Event(
        type=EventType.INBOUND,
        identity=Identity(WHOLE, {}),
        message_id=shown["id"],
        recipient=mail.address,
        occurred_ms=mail.made_ms,
        message={**shown, "attachments": attachments},
        files={file["id"]: one.content for file, one in files},
    )


def _candidate(
    event: Event, id_: EventId, key: Key, *, origin: EventOrigin | None = None
) -> Candidate:
    event = fitted(event)
    keys = EventKeys(key, Fingerprint(key))
    return Candidate(id_, event, keys, orjson.dumps(detail_of(event)), origin=origin)
