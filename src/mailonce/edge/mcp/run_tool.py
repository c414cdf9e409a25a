"""Run a tool: ask the API, and say in one shape what came of it and what to do next."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mailonce.client.async_client import AsyncClient
from mailonce.client.flows import PENDING
from mailonce.client.records import MessageRecord
from mailonce.edge.mcp import next_steps
from mailonce.edge.mcp.tools import WAIT_S, WAIT_S_MAX
from mailonce.errors import MailonceError

TEXT_CHARS_MAX = 20_000
LINK = "link"
_LISTS = ("senders", "subject_contains", "link_hosts", "states")


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool gives: `status` tells which fields there are, `next_step` what to do."""

    status: str
    next_step: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    is_error: bool = False
    # Mail may still come: the same call again waits for it.
    is_waiting: bool = False

    @property
    def content(self) -> dict[str, Any]:
        given = {name: value for name, value in self.fields.items() if value is not None}
        return {"status": self.status, **given, "next_step": self.next_step}


async def run_tool(client: AsyncClient, name: str, arguments: Mapping[str, Any]) -> ToolResult:
    """Run a tool with arguments that its schema allows."""
    try:
        return await _RUNS[name](client, arguments)
    except MailonceError as error:
        return ToolResult(error.code, str(error), dict(error.members), is_error=True)


async def _open(client: AsyncClient, given: Mapping[str, Any]) -> ToolResult:
    fields: Any = {name: given[name] for name in (*_LISTS, "code_format") if name in given}
    if "deadline_s" in given:
        fields["deadline_s"] = given["deadline_s"]
    opened = await client.open_expectation(
        given.get("inbox"), given["kind"], key=given["idempotency_key"], **fields
    )
    return ToolResult(
        opened.state,
        next_steps.OPENED,
        {
            "expectation": opened.id,
            "address": opened.json.get("address"),
            "deadline_at": opened.json.get("deadline_at"),
            "resends_left": opened.resends_left,
        },
    )


async def _await(client: AsyncClient, given: Mapping[str, Any]) -> ToolResult:
    wait_s = float(given.get("max_wait_s", WAIT_S))
    # One request: a server that is about to stop ends it at once, and the caller asks the next.
    record = await client.find_expectation(given["expectation"], wait_s=wait_s)
    return _standing(record.state, record.json)


async def _consume(client: AsyncClient, given: Mapping[str, Any]) -> ToolResult:
    consumed = await client.consume(given["expectation"], given["consume_key"])
    artifact = consumed.artifact
    step = next_steps.CONSUMED_LINK if artifact.kind == LINK else next_steps.CONSUMED
    confirmed_at = consumed.json.get("confirmed_at")
    return ToolResult(
        "consumed",
        step if confirmed_at is None else next_steps.CONFIRMED,
        {
            "kind": artifact.kind,
            "value": artifact.value,
            "sender": artifact.sender,
            "received_at": artifact.received_at,
            "lease_until": consumed.lease_until,
            "confirmed_at": confirmed_at,
        },
    )


async def _redeem(client: AsyncClient, given: Mapping[str, Any]) -> ToolResult:
    shown: Mapping[str, Any] = {}
    # Who gives up leaves the request to its end; the next call hears of it.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(WAIT_S_MAX):
            shown = await client.redeem(given["expectation"], given["consume_key"])
    state = str(shown.get("state", "redeeming"))
    fields = {name: shown.get(name) for name in ("reason", "host", "hops")}
    step = next_steps.OF_REDEMPTIONS.get(state, next_steps.OTHER)
    return ToolResult(state, step, {"http_status": shown.get("status"), **fields})


async def _report(client: AsyncClient, given: Mapping[str, Any]) -> ToolResult:
    shown = await client.confirm(
        given["expectation"], given["consume_key"], accepted=given["accepted"]
    )
    if given["accepted"]:
        return ToolResult("accepted", next_steps.ACCEPTED)
    return _standing(str(shown.get("state")), shown)


async def _may_resend(client: AsyncClient, given: Mapping[str, Any]) -> ToolResult:
    shown = await client.resend(given["expectation"], number=given["number"])
    fields = {name: shown.get(name) for name in ("reason", "resends_left", "wait_s")}
    if shown.get("granted"):
        return ToolResult("granted", next_steps.GRANTED, fields)
    wait_s = shown.get("wait_s")
    step = next_steps.NO_RESEND if wait_s is None else next_steps.LATER.format(wait_s=wait_s)
    return ToolResult("refused", step, fields)


async def _explain(client: AsyncClient, given: Mapping[str, Any]) -> ToolResult:
    shown = await client.explain(given["expectation"])
    state = str(shown.get("state", "unknown"))
    step = next_steps.OF_STATES.get(state, next_steps.OTHER)
    return ToolResult(state, step, {"explanation": dict(shown)})


async def _list_messages(client: AsyncClient, given: Mapping[str, Any]) -> ToolResult:
    page = await client.read_messages(given["inbox"], after=given.get("after", 0))
    return ToolResult(
        "listed",
        next_steps.LISTED,
        {"messages": [_head(message) for message in page.messages], "next": page.next},
    )


async def _read_message(client: AsyncClient, given: Mapping[str, Any]) -> ToolResult:
    message = await client.find_message(given["inbox"], given["message"])
    text = message.text[:TEXT_CHARS_MAX]
    return ToolResult(
        "read",
        next_steps.READ,
        {**_head(message), "text": text, "is_cut": len(message.text) > len(text)},
    )


def _standing(state: str, shown: Mapping[str, Any]) -> ToolResult:
    step = next_steps.OF_STATES.get(state, next_steps.OTHER)
    is_waiting = bool(shown.get("waiting", state == PENDING))
    if is_waiting and state != PENDING:
        step = next_steps.HELD_BACK
    names = ("reason", "artifact", "candidates", "resends_left", "deadline_at")
    fields = {name: shown.get(name) for name in names}
    return ToolResult(state, step, fields, is_waiting=is_waiting)


def _head(message: MessageRecord) -> dict[str, Any]:
    return {
        "message": message.id,
        "seq": message.seq,
        "sender": message.sender,
        "subject": message.subject,
        "received_at": message.received_at,
    }


_RUNS: Mapping[str, Callable[[AsyncClient, Mapping[str, Any]], Awaitable[ToolResult]]] = {
    "open_expectation": _open,
    "await_artifact": _await,
    "consume_artifact": _consume,
    "redeem_link": _redeem,
    "report_result": _report,
    "may_resend": _may_resend,
    "explain_expectation": _explain,
    "list_messages": _list_messages,
    "read_message": _read_message,
}
