"""Sends as users see them: where each stands, what was tried, and how that is known."""

from collections.abc import Mapping
from typing import NamedTuple, NotRequired

from typing_extensions import TypedDict

from mailonce.core.ids import public
from mailonce.core.moment import moment
from mailonce.core.query import SendFilter
from mailonce.core.sends.mail_content import own_message_id, read_content
from mailonce.core.sends.send_key import uuid_text
from mailonce.core.sends.send_lifecycle import SendState
from mailonce.core.sends.send_request import SendPriority
from mailonce.core.sends.sender import Sender, SendMode
from mailonce.core.work.states import State
from mailonce.errors import MissingError, ParseError
from mailonce.store.configuration import keys
from mailonce.store.dialects.contract import Database, Tx
from mailonce.store.ledger import events, messages, origins
from mailonce.store.ledger.events import LoggedEvent
from mailonce.store.sends import pages
from mailonce.store.sends.pages import SendPosition, StoredAct, StoredSend, StoredStep
from mailonce.views.deliveries import NONE_DOWN, EndpointsDown, Routes
from mailonce.views.paging import FOREIGN_CURSOR, Page, PageQuery
from mailonce.views.timelines import (
    TIMELINE_ROWS_MAX,
    EntryJson,
    Senders,
    read_deliveries,
    read_thread,
    sender_name,
    timeline_of,
)

_MS_BYTES = 6
# A deadline and the step that is due then are reckoned one after the other.
_SAME_STEP_MS = 2_000
_PRIORITIES = {one.lane: one.value for one in SendPriority}

_NO_ROUTES: Routes = {}


class SendStepJson(TypedDict):
    """One step: a call, its repetition, a lookup, or a lease whose worker was lost."""

    attempt: int
    step: str
    outcome: str | None
    at: str
    latency_ms: int
    sender: str | None
    message_id: str | None
    reason: str | None


class EvidenceJson(TypedDict):
    """Something that tells what became of a send."""

    kind: str
    at: str | None
    message_id: str | None
    event: str | None
    # The id of a key, and its name.
    by: str | None
    by_name: str | None
    reason: str | None


class SendJson(TypedDict):
    """One mail to one recipient. `message_id` is our own, `provider_message_id` the provider's."""

    id: str
    key: str
    state: str
    to: str
    to_name: str
    stream: str
    sender: str
    sender_name: str | None
    priority: str
    template: str | None
    template_version: int | None
    cause_id: str | None
    correlation_id: str
    provider_message_id: str | None
    reason: str | None
    # It is unknown and nothing more happens by itself: somebody should say what became of it.
    needs_person: bool
    # It was sent again although the first mail may have been sent.
    resent: bool
    forced: bool
    calls: int
    created_at: str
    # When the next step is due.
    due_at: str | None
    settled_at: str | None
    # Only where one send is shown.
    attempts: NotRequired[list[SendStepJson]]
    evidence: NotRequired[list[EvidenceJson]]
    timeline: NotRequired[list[EntryJson]]
    # What is due then: attempt, ask_provider, ask_person or send_again.
    next_step: NotRequired[str | None]
    # Whether it waits for a sender that is taken to be down, of which one mail at a time is tried.
    sender_down: NotRequired[bool]
    subject: NotRequired[str | None]
    message_id: NotRequired[str | None]


async def list_sends(
    database: Database, workspace: str, senders: Senders, query: SendFilter, page: PageQuery
) -> Page[SendJson]:
    """List sends, newest first."""
    below = page.position(_position, bytes, bytes)
    rows = await database.read(
        lambda tx: pages.page(tx, workspace, query, below=below, limit=page.limit + 1)
    )
    return page.of(rows, lambda row: send_json(row, senders), _end)


class _SendDetail(NamedTuple):
    send: StoredSend
    steps: list[StoredStep]
    acts: list[StoredAct]
    # The names of the keys by which people acted.
    people: dict[str, str | None]
    content: bytes | None
    timeline: list[EntryJson]


async def show_send(
    database: Database,
    workspace: str,
    senders: Senders,
    id_: bytes,
    *,
    routes: Routes = _NO_ROUTES,
    down: EndpointsDown = NONE_DOWN,
    shows_mail: bool = True,
) -> SendJson:
    """Show one send with its attempts, the evidence of its outcome, and all that followed.

    `shows_mail`: whether the timeline has the mail in inboxes that answers it.
    Raises: MissingError where this workspace has none of that id.
    """

    def work(tx: Tx) -> _SendDetail | None:
        row = pages.get(tx, workspace, id_)
        if row is None:
            return None
        steps, acts = pages.steps_of(tx, row.key), pages.acts_of(tx, row.key)
        content = pages.content_of(tx, row.content)
        thread = read_thread(tx, row, shows_mail=shows_mail)
        log = [*_provider_events(tx, row), *thread.log]
        known = read_deliveries(
            tx,
            workspace,
            log,
            routes,
            origins.of_workspace(tx, workspace),
            senders=senders,
            down=down,
        )
        people = {act.by: _name_of(tx, workspace, act.by) for act in acts}
        return _SendDetail(row, steps, acts, people, content, timeline_of(log, known, [thread]))

    detail = await database.read(work)
    if detail is None:
        raise MissingError("there is no such send; see GET /v1/sends")
    row = detail.send
    shown = send_json(row, senders)
    shown["attempts"] = [_step_json(step) for step in detail.steps]
    shown["evidence"] = evidence_of(row, detail.steps, detail.acts, detail.people)
    shown["timeline"] = detail.timeline
    shown["next_step"] = _next_step(row, senders.get(row.sender))
    # What is due later than its sender is asked again does not wait for it.
    is_held_up = row.sender in down and row.due_ms <= down[row.sender]
    shown["sender_down"] = shown["next_step"] == "attempt" and is_held_up
    shown["subject"] = shown["message_id"] = None
    if detail.content is not None:
        mail = read_content(detail.content)
        shown["subject"] = mail.subject
        shown["message_id"] = own_message_id(mail, uuid_text(row.key))
    return shown


def _next_step(row: StoredSend, sender: Sender | None) -> str | None:
    """Say what is due at `due_at`; of an unknown send the last step is at its deadline."""
    if row.state is not State.DUE:
        return None
    if row.send_state is not SendState.UNKNOWN:
        return "attempt"
    if row.due_ms < row.deadline_ms - _SAME_STEP_MS:
        return "ask_provider"
    is_sent_again = sender is not None and sender.mode is SendMode.AT_LEAST_ONCE
    return "send_again" if is_sent_again else "ask_person"


def _name_of(tx: Tx, workspace: str, key_id: str) -> str | None:
    key = keys.get(tx, workspace, key_id)
    return None if key is None else key.name


def _provider_events(tx: Tx, row: StoredSend) -> list[LoggedEvent]:
    """Read the events about the provider's own id of a send."""
    if not row.message_id:
        return []
    id_ = messages.known_id(tx, row.workspace, row.message_id, account=None)
    return events.of_message(
        tx, row.workspace, id_, account=None, recipient=row.recipient, limit=TIMELINE_ROWS_MAX
    )


def send_json(row: StoredSend, senders: Senders) -> SendJson:
    is_open = row.state is State.DUE
    made = moment(row.made_ms)
    # Most are due when they are made.
    due = made if row.due_ms == row.made_ms else moment(row.due_ms)
    return {
        "id": public("snd", row.id),
        "key": row.send_key,
        "state": row.send_state.word,
        "to": row.address,
        "to_name": row.name,
        "stream": row.stream,
        "sender": row.sender,
        "sender_name": sender_name(senders, row.sender),
        "priority": _PRIORITIES[row.lane],
        "template": row.template,
        "template_version": row.template_version,
        "cause_id": row.cause_id,
        "correlation_id": uuid_text(row.key),
        "provider_message_id": row.message_id,
        "reason": row.error,
        "needs_person": row.send_state is SendState.UNKNOWN and row.state is State.DEAD,
        "resent": bool(row.is_resent),
        "forced": bool(row.is_forced),
        "calls": row.tries,
        "created_at": made,
        "due_at": due if is_open else None,
        "settled_at": moment(row.done_ms),
    }


def evidence_of(
    row: StoredSend,
    steps: list[StoredStep],
    acts: list[StoredAct],
    people: Mapping[str, str | None],
) -> list[EvidenceJson]:
    """List what tells of a send's outcome: answers, lookups, the event, and what people said."""
    evidence: list[EvidenceJson] = [
        {
            "kind": "lookup" if step.step == "lookup" else "answer",
            "at": moment(step.at_ms),
            "message_id": step.message_id,
            "event": None,
            "by": None,
            "by_name": None,
            "reason": step.error,
        }
        for step in steps
        if step.outcome in {"accepted", "not_sent", "try_again", "found"}
    ]
    if row.proof is not None:
        evidence.append(
            {
                "kind": "event",
                "at": moment(row.done_ms),
                "message_id": row.message_id,
                "event": public("evt", row.proof),
                "by": None,
                "by_name": None,
                "reason": None,
            }
        )
    evidence += [
        {
            "kind": act.act,
            "at": moment(act.at_ms),
            "message_id": None,
            "event": None,
            "by": act.by,
            "by_name": people.get(act.by),
            "reason": act.reason,
        }
        for act in acts
    ]
    return sorted(evidence, key=lambda one: one["at"] or "")


def _step_json(step: StoredStep) -> SendStepJson:
    return {
        "attempt": step.attempt,
        "step": step.step or "lost",
        "outcome": step.outcome,
        "at": moment(step.at_ms),
        "latency_ms": step.latency_ms,
        "sender": step.sender,
        "message_id": step.message_id,
        "reason": step.error,
    }


def _end(last: StoredSend) -> tuple[bytes, bytes]:
    return last.made_ms.to_bytes(_MS_BYTES, "big"), last.key


def _position(made: bytes, key: bytes) -> SendPosition:
    if len(made) != _MS_BYTES:
        raise ParseError(FOREIGN_CURSOR)
    return SendPosition(int.from_bytes(made, "big"), key)
