"""Submit: take a request to send, once, into the ledger.

What is known already is read first, for many requests at a time: sends of the same keys (the ledger
remembers them longer than the claims do), suppressed addresses, templates. Then the mail is
rendered, and the request goes with all its recipients through the group commit: who comes with the
same key at the same moment is told apart there.

It is one generator (`Submitter.flow`) that yields what somebody else must do. `drive_submissions`
drives it: without a task as long as it waits for what many requests share, else in one.

What a crash leaves: before the commit nothing, and the caller comes again with the same key; after
it everything, and the caller is told what stands.
"""

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mailonce.clock import Clock
from mailonce.core.events.key import Fingerprint, Key
from mailonce.core.ids import ArrivalId
from mailonce.core.ledger.claim import ConflictWith, CopyOf
from mailonce.core.ledger.entry import Entry, EntryOutcome, GuardBroken
from mailonce.core.sends.fingerprint import differing_fields, request_fingerprint
from mailonce.core.sends.send_item import SendItem, SendRow
from mailonce.core.sends.send_key import work_key
from mailonce.core.sends.send_request import SendPriority, SendRequest, check_request
from mailonce.core.sends.sender import Sender
from mailonce.errors import ClashError, MissingError, ParseError, RefusedError
from mailonce.providers import sending
from mailonce.queue.configuration import ConfigurationCache
from mailonce.send.compose import Composer
from mailonce.send.database_time import DatabaseTime
from mailonce.send.items import ItemRules, RecipientMail, mails_of
from mailonce.send.ledger_look import LedgerAnswer, LedgerQuery
from mailonce.store.dialects.contract import Database
from mailonce.store.sends import known, pages
from mailonce.store.sends.pages import StoredSend

YEAR_MS = 366 * 86_400_000


class KeyReuseError(ClashError):
    """A key stands for another mail already."""

    code = "key_reuse"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRule:
    """How mail of a stream is treated where its request does not say."""

    priority: SendPriority | None = None
    unsubscribe: bool = False
    sender: str | None = None


_PLAIN = StreamRule()


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitRules:
    """The limits and defaults of requests."""

    mail_bytes_max: int
    # Recipients can reach us, so that mails can have a link to unsubscribe.
    has_links: bool = False
    streams: Mapping[str, StreamRule] = field(default_factory=dict)
    # With `--dev`: what stands for every sender of a workspace, and what is done before a mail to
    # these addresses is submitted.
    dev_sender: Callable[[str], Sender] | None = None
    prepare: Callable[[str, Sequence[str]], Awaitable[None]] | None = None

    def stream(self, name: str) -> StreamRule:
        return self.streams.get(name, _PLAIN)


class SubmittedSend(NamedTuple):
    """A send as it stands; `is_replayed` where it stood before this request."""

    send: StoredSend
    is_replayed: bool


# What somebody else must do before a request goes on: look into the ledger, record, or wait for
# anything else. It gets the result, or the error is raised in it.
SubmitStep = LedgerQuery | Entry | Awaitable[Any]
SubmitFlow = Generator[SubmitStep, Any, list[SubmittedSend]]


class Submitter:
    """Takes requests to send.

    Invariant: all mails of a request stand, or none; a key stands for one content as long as the
    ledger is kept.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        configuration: ConfigurationCache,
        time: DatabaseTime,
        composer: Composer,
        rules: SubmitRules,
    ) -> None:
        self._database = database
        self._clock = clock
        self._configuration = configuration
        self._time = time
        self._composer = composer
        self._rules = rules

    def flow(self, workspace: str, request: SendRequest, *, by: str) -> SubmitFlow:
        """Take a request of somebody (`by`); give its sends in the order of its recipients.

        Raises: ParseError or SizeError where it cannot be sent, KeyReuseError where its key stands
        for something else, MissingError where sender or template are not there, UnavailableError.
        """
        check_request(request, mail_bytes_max=self._rules.mail_bytes_max)
        sender = self._known_sender(workspace, request)
        if sender is None:
            yield self._configuration.refresh()
            sender = self._known_sender(workspace, request)
        if sender is None:
            raise self._no_sender(request)
        mails = mails_of(workspace, request)
        whole = request_fingerprint([mail.fingerprint for mail in mails])
        query = _query(workspace, request, mails)
        stands: LedgerAnswer = yield query
        yield from self._check_key(workspace, request, mails, whole, stands)
        copies = {key: one.id for key, one in stands.sends.items()}
        new = [mail for mail in mails if mail.key not in copies] if copies else mails
        made: dict[Key, SendRow] = {}
        if new:
            _check_metadata(sender, request)
            items = yield from self._items(
                workspace, request, sender, new, stands, by=by, key=query.request, whole=whole
            )
            if self._rules.prepare is not None:
                yield self._rules.prepare(workspace, [mail.recipient.address for mail in new])
            outcome: EntryOutcome = yield self._entry(workspace, items, whole)
            made, more = yield from self._judge(workspace, request, mails, items, outcome)
            copies |= more
        return (yield from self._answer(workspace, mails, made, copies))

    def _known_sender(self, workspace: str, request: SendRequest) -> Sender | None:
        if self._rules.dev_sender is not None:
            return self._rules.dev_sender(workspace)
        name = request.sender or self._rules.stream(request.stream).sender
        return self._configuration.snapshot.find_sender(workspace, name)

    def _no_sender(self, request: SendRequest) -> RefusedError:
        name = request.sender or self._rules.stream(request.stream).sender
        if name is not None:
            return MissingError(f"there is no sender {name[:80]!r}; see GET /v1/senders")
        return RefusedError(
            "there is no sender yet; add [senders.NAME] to the settings, or POST /v1/senders; with "
            "`mailonce serve --dev` none is needed, and mail is kept here"
        )

    def _check_key(
        self,
        workspace: str,
        request: SendRequest,
        mails: Sequence[RecipientMail],
        whole: Fingerprint,
        stands: LedgerAnswer,
    ) -> Generator[SubmitStep, Any, None]:
        """Refuse a key that stands for something else."""
        for mail in mails:
            send = stands.sends.get(mail.key)
            if send is not None and send.fingerprint != mail.fingerprint:
                raise _reused(request, differing_fields(send.parts, mail.parts))
        if stands.request is not None and stands.request != whole:
            raise (yield self._other_request(workspace, request, mails))

    async def _other_request(
        self, workspace: str, request: SendRequest, mails: Sequence[RecipientMail]
    ) -> KeyReuseError:
        """Say in what a request differs from the one that its key stands for.

        One mail of each is compared; where these are equal, the recipients differ.
        """
        parts = await self._database.read(
            lambda tx: known.parts_of_request(tx, workspace, request.key.text)
        )
        fields = [] if parts is None else differing_fields(parts, mails[0].parts)
        return _reused(request, fields or ["to"])

    def _items(
        self,
        workspace: str,
        request: SendRequest,
        sender: Sender,
        mails: Sequence[RecipientMail],
        stands: LedgerAnswer,
        *,
        by: str,
        key: Key | None,
        whole: Fingerprint,
    ) -> Generator[SubmitStep, Any, tuple[SendItem, ...]]:
        stream = self._rules.stream(request.stream)
        has_link = stream.unsubscribe if request.unsubscribe is None else request.unsubscribe
        if has_link and not self._rules.has_links:
            raise RefusedError(
                "`unsubscribe` needs `public_url` in the settings; set it, or leave it out"
            )
        now_ms = self._time.known_ms()
        if now_ms is None:
            now_ms = yield self._time.now_ms()
        assert now_ms is not None, "it was asked for"
        if request.send_at_ms is not None and request.send_at_ms > now_ms + YEAR_MS:
            raise ParseError("`send_at` is more than a year ahead; choose an earlier time")
        recipients = [mail.recipient for mail in mails]
        bodies = self._composer.compose_at_once(request, recipients, is_unsubscribable=has_link)
        if bodies is None:
            bodies = yield self._composer.compose(
                request, recipients, stands.template, is_unsubscribable=has_link
            )
        assert bodies is not None, "they were composed"
        causes = {
            address: cause
            for address, streams in stands.suppressed.items()
            if (cause := streams.cause_for(request.stream)) is not None
        }
        rules = ItemRules(
            workspace=workspace,
            request=request,
            sender=sender,
            priority=request.priority or stream.priority or request.default_priority,
            template_version=None if stands.template is None else stands.template.version,
            request_key=key,
            whole=whole,
            by=by,
            now_ms=now_ms,
            new_id=self._clock.new_id,
        )
        return rules.items(mails, bodies, causes)

    def _judge(
        self,
        workspace: str,
        request: SendRequest,
        mails: Sequence[RecipientMail],
        items: tuple[SendItem, ...],
        outcome: EntryOutcome,
    ) -> Generator[SubmitStep, Any, tuple[dict[Key, SendRow], dict[Key, bytes]]]:
        """Give the mails that were recorded as new, and the ids of the others."""
        if isinstance(outcome, GuardBroken):
            raise (yield self._other_request(workspace, request, mails))
        made: dict[Key, SendRow] = {}
        copies: dict[Key, bytes] = {}
        for item, verdict in zip(items, outcome.verdicts, strict=True):
            match verdict:
                case ConflictWith():
                    raise (yield self._conflict(request, item))
                case CopyOf(owner=owner):
                    copies[item.key] = owner
                case _:
                    made[item.key] = item.row
        return made, copies

    def _entry(self, workspace: str, items: tuple[SendItem, ...], whole: Fingerprint) -> Entry:
        of_request = items[0].request
        bodies = {item.content.id: item.content.body for item in items}
        return Entry(
            id=ArrivalId(self._clock.new_id()),
            workspace=workspace,
            # Workspaces have their turns in a batch, as sources have.
            source=f"sends/{workspace}",
            account="",
            arrival_key="",
            # Not kept as such: the bounds of a batch go by its size.
            body=items[0].content.body if len(bodies) == 1 else b"".join(bodies.values()),
            headers=b"",
            signs_body=False,
            events=(),
            items=items,
            is_arrival=False,
            is_whole=True,
            guard=None if of_request is None else (of_request.key, whole),
        )

    async def _conflict(self, request: SendRequest, item: SendItem) -> KeyReuseError:
        sends = await self._database.read(lambda tx: known.sends_of(tx, [item.key]))
        if item.key not in sends:
            return _reused(request, ["to"])
        return _reused(request, differing_fields(sends[item.key].parts, item.row.parts))

    def _answer(
        self,
        workspace: str,
        mails: Sequence[RecipientMail],
        made: Mapping[Key, SendRow],
        copies: Mapping[Key, bytes],
    ) -> SubmitFlow:
        stored: dict[bytes, StoredSend] = {}
        if copies:
            ids = sorted(copies.values())
            # They may stand here and not yet on a standby, which a transaction that writes awaits.
            rows = yield self._database.write(lambda tx: pages.get_many(tx, workspace, ids))
            stored = {bytes(row.id): row for row in rows}
        return [
            SubmittedSend(pages.of_row(made[mail.key]), is_replayed=False)
            if mail.key in made
            else SubmittedSend(stored[copies[mail.key]], is_replayed=True)
            for mail in mails
        ]


def _check_metadata(sender: Sender, request: SendRequest) -> None:
    """See that the sender's provider takes the metadata; it would refuse the mail for good."""
    of_provider = sending.find(sender.provider) if request.metadata else None
    trouble = None if of_provider is None else of_provider.check_metadata(request.metadata)
    if trouble is not None:
        raise ParseError(trouble)


def _query(workspace: str, request: SendRequest, mails: Sequence[RecipientMail]) -> LedgerQuery:
    key = request.key
    return LedgerQuery(
        workspace,
        tuple(mail.key for mail in mails),
        work_key(workspace, key.request_key()) if key.is_given else None,
        tuple(mail.recipient.address for mail in mails),
        None if request.template is None else (request.template, request.template_version),
    )


def _reused(request: SendRequest, fields: Sequence[str]) -> KeyReuseError:
    named = ", ".join(f"`{name}`" for name in fields)
    return KeyReuseError(
        f"send key {request.key.text[:100]!r} already stands for another mail, which differs in "
        f"{named}; use a new key for a new mail"
    )
