"""Sends straight into the ledger, as the group commit writes them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace
from sqlalchemy import select

from mailonce.clock import Clock
from mailonce.core.ids import ArrivalId
from mailonce.core.ledger.claim import Verdict
from mailonce.core.ledger.entry import ArrivalOutcome, Entry, EntryOutcome
from mailonce.core.sends.fingerprint import (
    fingerprint_of,
    parts_of,
    request_fingerprint,
    written_parts,
)
from mailonce.core.sends.mail_content import MailContent, written_content
from mailonce.core.sends.send_item import ContentRow, RequestRow, SendItem, SendRow
from mailonce.core.sends.send_key import work_key
from mailonce.core.sends.send_request import SendRequest
from mailonce.pipeline.record import Limits, Recorder
from mailonce.store.dialects.contract import Database
from mailonce.store.schema.send_tables import SENDS
from mailonce.telemetry import Metrics

CLOCK = Clock()
SENDER = "snr_out"


def make_entry_of(
    request: SendRequest, *, workspace: str = "default", sender: str = SENDER, **changes: Any
) -> Entry:
    """Make the entry of a request; `changes` are those of each send's row."""
    now_ms = CLOCK.now_ms()
    content = MailContent(
        from_=request.from_, subject=request.subject or "", text=request.text, html=request.html
    )
    kept = ContentRow(CLOCK.new_id(), workspace, written_content(content))
    parts = {one.address: parts_of(request, one) for one in request.recipients}
    whole = request_fingerprint([fingerprint_of(one) for one in parts.values()])
    of_request = None
    if request.key.is_given:
        key = work_key(workspace, request.key.request_key())
        of_request = RequestRow(key, workspace, whole)
    items = tuple(
        SendItem(
            replace(
                SendRow(
                    key=work_key(workspace, request.key.recipient_key(one.address)),
                    id=CLOCK.new_id(), workspace=workspace, sender=sender, content=kept.id, state=0,
                    send_state=0, lane=1, made_ms=now_ms, due_ms=now_ms,
                    deadline_ms=now_ms + 3_600_000,
                    send_key=request.key.text, fingerprint=fingerprint_of(parts[one.address]),
                    parts=written_parts(parts[one.address]), recipient=one.address,
                    address=one.mailbox.address, name=one.mailbox.name, stream=request.stream,
                    template=request.template, template_version=None, cause_id=request.cause_id,
                    error=None, is_forced=False,
                ),
                **changes,
            ),
            kept,
            of_request,
        )
        for one in request.recipients
    )  # fmt: skip
    return Entry(
        id=ArrivalId(CLOCK.new_id()), workspace=workspace, source="sends", account="",
        arrival_key="", body=kept.body, headers=b"", signs_body=False, events=(), items=items,
        is_arrival=False, is_whole=True,
        guard=None if of_request is None else (of_request.key, whole),
    )  # fmt: skip


@asynccontextmanager
async def recording(database: Database) -> AsyncIterator[Recorder]:
    recorder = Recorder(database, CLOCK, Metrics(), Limits())
    recorder.start()
    try:
        yield recorder
    finally:
        await recorder.close()


def verdicts_of(answer: EntryOutcome) -> Sequence[Verdict]:
    assert isinstance(answer, ArrivalOutcome)
    return answer.verdicts


async def submit(database: Database, *requests: SendRequest, **changes: Any) -> list[EntryOutcome]:
    async with recording(database) as recorder:
        return [await recorder.record(make_entry_of(request, **changes)) for request in requests]


async def rows(database: Database, table: Any = SENDS, **where: Any) -> list[dict[str, Any]]:
    query = select(table).where(*(table.c[name] == value for name, value in where.items()))
    found = await database.read(lambda tx: tx.execute(query).mappings().all())
    return [dict(row) for row in found]
