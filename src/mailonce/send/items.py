"""The items of a request: what the group commit claims and writes for each recipient."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from mailonce.core.events.key import Fingerprint, Key
from mailonce.core.sends.fingerprint import (
    fingerprint_of_written,
    parts_to,
    shared_parts,
    written_parts,
)
from mailonce.core.sends.send_item import ActRow, ContentRow, RequestRow, SendItem, SendRow
from mailonce.core.sends.send_key import work_key
from mailonce.core.sends.send_lifecycle import SendState, work_state
from mailonce.core.sends.send_request import Recipient, SendPriority, SendRequest
from mailonce.core.sends.sender import Sender

FORCED = "forced"


class RecipientMail(NamedTuple):
    """One recipient's mail of a request."""

    recipient: Recipient
    key: Key
    # As the ledger keeps them.
    parts: bytes
    fingerprint: Fingerprint


def mails_of(workspace: str, request: SendRequest) -> list[RecipientMail]:
    """Identify the mails of a request."""
    shared = shared_parts(request)
    mails: list[RecipientMail] = []
    for recipient in request.recipients:
        parts = written_parts(parts_to(request, recipient, shared))
        key = work_key(workspace, request.key.recipient_key(recipient.address))
        mails.append(RecipientMail(recipient, key, parts, fingerprint_of_written(parts)))
    return mails


class ItemRules(Struct, frozen=True, kw_only=True):
    """What all mails of a request share."""

    workspace: str
    request: SendRequest
    sender: Sender
    priority: SendPriority
    template_version: int | None
    # The key of the whole request, None where it was derived; and its fingerprint.
    request_key: Key | None
    whole: Fingerprint
    by: str
    now_ms: int
    new_id: Callable[[], bytes]

    def items(
        self,
        mails: Sequence[RecipientMail],
        bodies: Sequence[bytes],
        causes: Mapping[str, str],
    ) -> tuple[SendItem, ...]:
        """Make the items; `causes` say by address why a mail must not be sent."""
        contents: dict[bytes, ContentRow] = {}
        of_request = None
        if self.request_key is not None:
            of_request = RequestRow(self.request_key, self.workspace, self.whole)
        items: list[SendItem] = []
        for mail, body in zip(mails, bodies, strict=True):
            content = contents.get(body)
            if content is None:
                content = contents[body] = ContentRow(self.new_id(), self.workspace, body)
            row = self._row(mail, content, causes.get(mail.recipient.address))
            act = None
            if row.is_forced:
                act = ActRow(mail.key, self.new_id(), self.now_ms, FORCED, self.by, None)
            items.append(SendItem(row, content, of_request, act))
        return tuple(items)

    def _row(self, mail: RecipientMail, content: ContentRow, cause: str | None) -> SendRow:
        request, recipient = self.request, mail.recipient
        is_stopped = cause is not None and not request.ignores_suppressions
        state = SendState.SUPPRESSED if is_stopped else SendState.PENDING
        due_ms = max(self.now_ms, request.send_at_ms or 0)
        return SendRow(
            key=mail.key,
            id=self.new_id(),
            workspace=self.workspace,
            sender=self.sender.id,
            content=content.id,
            state=int(work_state(state)),
            send_state=int(state),
            lane=int(self.priority.lane),
            made_ms=self.now_ms,
            due_ms=due_ms,
            deadline_ms=due_ms + self.sender.deadline_s * 1000,
            send_key=request.key.text,
            fingerprint=mail.fingerprint,
            parts=mail.parts,
            recipient=recipient.address,
            address=recipient.mailbox.address,
            name=recipient.mailbox.name,
            stream=request.stream,
            template=request.template,
            template_version=self.template_version,
            cause_id=request.cause_id,
            error=f"suppressed: {cause}" if is_stopped else None,
            is_forced=cause is not None and request.ignores_suppressions,
        )
