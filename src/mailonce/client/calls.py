"""The calls of the client, as flows: what each asks the API for, and what it gives."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypedDict

from mailonce.client import requests
from mailonce.client.flows import FlowContext, ask, ask_json, read_answer
from mailonce.client.records import (
    ConsumptionRecord,
    ExpectationRecord,
    InboxRecord,
    MessageRecord,
    SendRecord,
    consumption_of,
    expectation_of,
    message_of,
    object_of,
    record_of,
)
from mailonce.client.requests import name_of, new_key
from mailonce.client.send_fields import RecipientFields, SendFields, plain_fields
from mailonce.client.steps import Flow, Sleep
from mailonce.errors import ClashError, UnavailableError

# A redemption has an outcome by then, be it that nobody knows it.
REDEEM_S_MAX = 45.0
REDEEMING = "redeeming"
KeyHook = Callable[[str], object]
InboxName = InboxRecord | str
ExpectationName = ExpectationRecord | str
SendName = SendRecord | str
ExpectationKind = Literal["code", "link", "state"]


class InboxFields(TypedDict, total=False):
    """What an inbox may be given; see docs/inboxes.md."""

    local: str
    domain: str
    ttl_s: int
    metadata: Mapping[str, Any]
    mails_max: int
    bytes_max: int


class ExpectationFields(TypedDict, total=False):
    """What narrows an expectation; see docs/agents.md."""

    senders: Sequence[str]
    subject_contains: Sequence[str]
    code_format: str
    link_hosts: Sequence[str]
    only_candidate: bool
    states: Sequence[str]
    require_dmarc: bool
    # For whom it counts; `for` is a word of Python.
    for_: str
    deadline_s: float
    resends: int
    # With an operator's key: mail behind this number of the inbox counts, too.
    after: int


class NarrowFields(TypedDict, total=False):
    """What narrows an expectation that is open: less than it was, never more."""

    senders: Sequence[str]
    subject_contains: Sequence[str]
    code_format: str
    link_hosts: Sequence[str]
    states: Sequence[str]
    require_dmarc: bool
    # Counted from when it was opened.
    deadline_s: float
    resends: int


def send(
    context: FlowContext,
    to: RecipientFields | Sequence[RecipientFields],
    *,
    from_: str,
    key: str | None,
    on_key: KeyHook | None,
    fields: SendFields,
) -> Flow[list[SendRecord]]:
    """Send a mail, once; a key is made where neither one nor a cause is given.

    `on_key` is given the key before the first attempt, so that whoever crashes meanwhile can ask
    again under the same one. Where no answer came, or one that cannot be read, the error has it as
    the member `key`.
    """
    if key is None and not fields.get("cause_id"):
        key = new_key()
    if key is not None and on_key is not None:
        on_key(key)
    body: dict[str, Any] = {"to": to, "from": from_, **plain_fields(fields)}
    try:
        answer = yield from ask(context, requests.post("sends", body=body, key=key))
        is_replayed = answer.headers.get("idempotent-replayed") == "true"
        return read_answer(context, answer, partial(_sends_of, is_replayed=is_replayed))
    except UnavailableError as error:
        error.members = {**error.members, **({} if key is None else {"key": key})}
        raise


def _sends_of(shown: Mapping[str, Any], *, is_replayed: bool) -> list[SendRecord]:
    several = shown.get("data", [shown])
    return [record_of(SendRecord, one, is_replayed=is_replayed) for one in several]


def find_send(context: FlowContext, send: SendName) -> Flow[SendRecord]:
    request = requests.get("sends", name_of(send))
    return (yield from ask_json(context, request, partial(record_of, SendRecord)))


def cancel_send(context: FlowContext, send: SendName) -> Flow[SendRecord]:
    request = requests.post("sends", name_of(send), "cancel")
    return (yield from ask_json(context, request, partial(record_of, SendRecord)))


def make_inbox(context: FlowContext, key: str | None, fields: InboxFields) -> Flow[InboxRecord]:
    """Make an inbox; an answer that was lost is asked for again under the same key."""
    request = requests.post("inboxes", body=fields, key=key or new_key())
    return (yield from ask_json(context, request, partial(record_of, InboxRecord)))


def find_inbox(context: FlowContext, inbox: InboxName) -> Flow[InboxRecord]:
    request = requests.get("inboxes", name_of(inbox))
    return (yield from ask_json(context, request, partial(record_of, InboxRecord)))


def delete_inbox(context: FlowContext, inbox: InboxName) -> Flow[None]:
    """Delete an inbox with all its mail; one that is gone already is as good."""
    body = {"inboxes": [name_of(inbox)]}
    yield from ask(context, requests.post("inboxes", "delete", body=body))


def put_message(
    context: FlowContext, inbox: InboxName, mail: bytes, *, to: str | None, from_: str | None
) -> Flow[bool]:
    """Put a mail into an inbox as if it had come over SMTP; say whether it was new."""
    query: dict[str, Any] = {"to": to, "from": from_}
    request = requests.post_mail("inboxes", name_of(inbox), "messages", mail=mail, **query)
    return (yield from ask_json(context, request, lambda shown: bool(shown["new"])))


def raw_mail(context: FlowContext, inbox: InboxName, message: str) -> Flow[bytes]:
    path = ("inboxes", name_of(inbox), "messages", message, "raw")
    return (yield from ask(context, requests.get(*path))).body


def find_message(context: FlowContext, inbox: InboxName, message: str) -> Flow[MessageRecord]:
    path = ("inboxes", name_of(inbox), "messages", message)
    return (yield from ask_json(context, requests.get(*path), message_of))


def find_access(context: FlowContext) -> Flow[Mapping[str, Any]]:
    """Say what the client's own key may do."""
    return (yield from ask_json(context, requests.get("access"), object_of))


def open_expectation(
    context: FlowContext,
    inbox: InboxName | None,
    kind: ExpectationKind,
    key: str | None,
    fields: ExpectationFields,
) -> Flow[ExpectationRecord]:
    """Open an expectation of an inbox, or of a new one; mail that comes from now on counts."""
    body: dict[str, Any] = {**fields, "kind": kind, "for": fields.get("for_")}
    body.pop("for_", None)
    place = () if inbox is None else ("inboxes", name_of(inbox))
    request = requests.post(*place, "expectations", body=body, key=key or new_key())
    return (yield from ask_json(context, request, expectation_of))


def find_expectation(
    context: FlowContext, expectation: ExpectationName, wait_s: float
) -> Flow[ExpectationRecord]:
    request = requests.get("expectations", id_of(expectation), wait=wait_s or None)
    return (yield from ask_json(context, request, expectation_of, wait_s=wait_s))


def consume(
    context: FlowContext, expectation: ExpectationName, consume_key: str | None
) -> Flow[ConsumptionRecord]:
    """Take the value, once; the same key is given the same value again."""
    key = consume_key or new_key()
    name = id_of(expectation)
    request = requests.post("expectations", name, "consume", body={"consume_key": key})
    read = partial(consumption_of, expectation=name, key=key)
    return (yield from ask_json(context, request, read))


def confirm(
    context: FlowContext, expectation: ExpectationName, consume_key: str, *, accepted: bool
) -> Flow[Mapping[str, Any]]:
    """Say whether the value was accepted where it was used."""
    body = {"consume_key": consume_key, "accepted": accepted}
    path = ("expectations", id_of(expectation), "confirm")
    return (yield from ask_json(context, requests.post(*path, body=body), object_of))


def redeem(
    context: FlowContext, expectation: ExpectationName, consume_key: str
) -> Flow[Mapping[str, Any]]:
    """Let the server make the one request with the link that was consumed.

    While another has it made, or the answer to the first call was lost, its outcome is asked for.
    """
    body = {"consume_key": consume_key}
    request = requests.post("expectations", id_of(expectation), "redeem", body=body)
    until_s = context.now() + REDEEM_S_MAX
    attempt = 0
    while True:
        attempt += 1
        try:
            return (yield from ask_json(context, request, object_of, wait_s=REDEEM_S_MAX))
        except ClashError as error:
            left_s = until_s - context.now()
            if error.code != REDEEMING or left_s <= 0:
                raise
            yield Sleep(min(context.pause_s(attempt), left_s))


def narrow(
    context: FlowContext, expectation: ExpectationName, fields: NarrowFields
) -> Flow[ExpectationRecord]:
    """Ask for less than before; a second time it changes nothing."""
    request = requests.post("expectations", id_of(expectation), "narrow", body=fields)
    return (yield from ask_json(context, request, expectation_of))


def resend(
    context: FlowContext, expectation: ExpectationName, number: int
) -> Flow[Mapping[str, Any]]:
    """Ask whether the mail may be asked for again; the same number gets the same grant."""
    path = ("expectations", id_of(expectation), "resend")
    request = requests.post(*path, body={"number": number})
    return (yield from ask_json(context, request, object_of))


def explain(context: FlowContext, expectation: ExpectationName) -> Flow[Mapping[str, Any]]:
    """Say what came, and why it did or did not match."""
    path = ("expectations", id_of(expectation), "explain")
    return (yield from ask_json(context, requests.get(*path), object_of))


def id_of(expectation: ExpectationName) -> str:
    return expectation if isinstance(expectation, str) else expectation.id
