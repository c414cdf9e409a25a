"""A request to send: one mail for one or many recipients, and what is wrong with it."""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from mailonce.core import bounds
from mailonce.core.sends.mail_address import trouble_of_address
from mailonce.core.sends.mail_words import trouble_of_words
from mailonce.core.sends.outgoing_mail import Mailbox, OutgoingAttachment
from mailonce.core.sends.send_key import SendKey
from mailonce.core.sends.sending import ID_NAME
from mailonce.core.work.states import AttemptKind
from mailonce.errors import ParseError, SizeError

RECIPIENTS_MAX = 1_000
REPLY_TO_MAX = 10
HEADERS_MAX = 30
ATTACHMENTS_MAX = 50
TAGS_MAX = 10
METADATA_MAX = 20
SUBJECT_CHARS_MAX = 998
HEADER_CHARS_MAX = 2_000
NAME_CHARS_MAX = 200
STREAM_CHARS_MAX = 200
TAG_CHARS_MAX = 100
METADATA_CHARS_MAX = 500
VARIABLES_BYTES_MAX = 200_000
# Beyond this many recipients a mail that says nothing else is one that can wait.
BULK_RECIPIENTS = 10

_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")
_TAG = re.compile(r"[A-Za-z0-9_.:-]{1,100}")
_METADATA_NAME = re.compile(r"[A-Za-z0-9_-]{1,50}")
_MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,60}/[A-Za-z0-9!#$&^_.+-]{1,100}")
_CONTENT_ID = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.@-]{1,200}")
# What the mail itself or mailonce says, and what makes a provider do something else: X-SMTPAPI
# for example adds recipients.
_RESERVED_HEADERS = re.compile(
    r"from|to|cc|bcc|sender|reply-to|subject|date|message-id|return-path|received|mime-version"
    r"|content-.*|resent-.*|dkim-.*|arc-.*|authentication-results|delivered-to|errors-to"
    r"|x-mailonce-.*|x-smtpapi|x-ses-.*|x-mc-.*|x-mailgun-.*|x-msys-.*|x-pm-.*|x-mailin-.*"
    r"|x-mj-.*|x-mt-.*|x-postal-.*|resend-.*|x-smtp2go-.*|x-entity-ref-id|idempotency-?key",
    re.IGNORECASE,
)


class SendPriority(StrEnum):
    """Which mail goes first: a code before a receipt, a receipt before a newsletter."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"

    @property
    def lane(self) -> AttemptKind:
        """The place in a sender's lane; it keeps it in all its attempts."""
        return _LANES[self]


_LANES = {
    SendPriority.HIGH: AttemptKind.FIRST,
    SendPriority.NORMAL: AttemptKind.RETRY,
    SendPriority.LOW: AttemptKind.REDELIVERY,
}


class Recipient(Struct, frozen=True):
    """To whom: `mailbox` as it was given, `address` bare and casefolded."""

    mailbox: Mailbox
    address: str
    # Those of the template that are this recipient's own.
    variables: Mapping[str, Any] = field(default_factory=dict)


class SendRequest(Struct, frozen=True, kw_only=True):
    """What a caller wants to be sent, once."""

    key: SendKey
    recipients: tuple[Recipient, ...]
    from_: Mailbox
    subject: str | None = None
    text: str | None = None
    html: str | None = None
    template: str | None = None
    # None: the newest.
    template_version: int | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)
    stream: str = ""
    cause_id: str | None = None
    # By id or name; None: the first one.
    sender: str | None = None
    send_at_ms: int | None = None
    reply_to: tuple[Mailbox, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    attachments: tuple[OutgoingAttachment, ...] = ()
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    # None: that of the stream, else by the number of recipients.
    priority: SendPriority | None = None
    # Whether mails get a link to unsubscribe with one click; None: as the stream is set.
    unsubscribe: bool | None = None
    # Send to suppressed addresses, too.
    ignores_suppressions: bool = False

    def variables_for(self, recipient: Recipient) -> dict[str, Any]:
        """Give the variables of one recipient's mail; its own replace those of the request."""
        return {**self.variables, **recipient.variables}

    @property
    def default_priority(self) -> SendPriority:
        is_bulk = len(self.recipients) > BULK_RECIPIENTS
        return SendPriority.LOW if is_bulk else SendPriority.NORMAL


def check_request(request: SendRequest, *, mail_bytes_max: int) -> None:
    """See that a request can be sent as it is.

    Raises: ParseError, one sentence that names the field and the fix; SizeError above a limit.
    """
    trouble = _trouble_of(request)
    if trouble is not None:
        raise ParseError(trouble)
    size = sum(len(one.content) for one in request.attachments)
    size += _bytes_of(request.text) + _bytes_of(request.html)
    if size > mail_bytes_max:
        raise SizeError(
            f"text, HTML and attachments have {size} bytes, the limit is {mail_bytes_max}; "
            "send a link to the file instead, or raise `sends.mail_bytes_max`"
        )


def trouble_of_line(name: str, text: str, chars_max: int) -> str | None:
    """Say what keeps a text from standing in one line of a mail's head; None where nothing does."""
    if text.isascii() and text.isprintable() and len(text) <= chars_max:
        return None
    if _CONTROL.search(text) is not None:
        return f"`{name}` has a line break or another control character; take it out"
    return _first(bounds.of_text(name, text, chars_max))


def _bytes_of(text: str | None) -> int:
    if text is None:
        return 0
    return len(text) if text.isascii() else len(text.encode())


def _first(troubles: Iterable[str]) -> str | None:
    return next(iter(troubles), None)


def _trouble_of(request: SendRequest) -> str | None:
    """Say what is wrong first; most requests have few of the fields, and nothing is wrong."""
    return (
        _trouble_of_recipients(request)
        or _trouble_of_mailbox("from", request.from_)
        or _trouble_of_reply_to(request.reply_to)
        or _trouble_of_words(request)
        or trouble_of_line("stream", request.stream, STREAM_CHARS_MAX)
        or _trouble_of_headers(request.headers)
        or _trouble_of_attachments(request.attachments)
        or _trouble_of_tags(request.tags)
        or _trouble_of_metadata(request.metadata)
    )


def _trouble_of_recipients(request: SendRequest) -> str | None:
    many = len(request.recipients)
    if not 1 <= many <= RECIPIENTS_MAX:
        return f"`to` has {many} recipients; give 1 to {RECIPIENTS_MAX} in one request"
    seen: set[str] = set()
    for recipient in request.recipients:
        trouble = _trouble_of_mailbox("to", recipient.mailbox)
        if trouble is None and recipient.address in seen:
            trouble = f"`to` has {recipient.mailbox.address[:80]!r} twice; name each address once"
        seen.add(recipient.address)
        trouble = trouble or _trouble_of_variables("to.variables", recipient.variables)
        if trouble is not None:
            return trouble
    return None


def _trouble_of_mailbox(field_: str, mailbox: Mailbox) -> str | None:
    trouble = trouble_of_address(mailbox.address)
    if trouble is not None:
        return f"`{field_}` has {mailbox.address[:80]!r}, {trouble}"
    return trouble_of_line(f"{field_} name", mailbox.name, NAME_CHARS_MAX)


def _trouble_of_reply_to(reply_to: tuple[Mailbox, ...]) -> str | None:
    if len(reply_to) > REPLY_TO_MAX:
        return f"`reply_to` has more than {REPLY_TO_MAX} addresses; take some away"
    for mailbox in reply_to:
        if (trouble := _trouble_of_mailbox("reply_to", mailbox)) is not None:
            return trouble
    return None


def _trouble_of_words(request: SendRequest) -> str | None:
    own = {"subject": request.subject, "text": request.text, "html": request.html}
    trouble = trouble_of_words(
        **own, template=request.template, has_files=bool(request.attachments)
    )
    if trouble is not None:
        return trouble
    if request.template is not None:
        trouble = _first(bounds.of_text("template", request.template, bounds.NAME_CHARS_MAX))
        if trouble is not None:
            return trouble
    elif request.variables or any(one.variables for one in request.recipients):
        return "`variables` are those of a `template`, and there is none; leave them out"
    for name, value in own.items():
        if value is not None and not bounds.is_storable(value):
            return f"`{name}` has a character that cannot be kept (NUL or half a pair); take it out"
    return trouble_of_line(
        "subject", request.subject or "", SUBJECT_CHARS_MAX
    ) or _trouble_of_variables("variables", request.variables)


def _trouble_of_variables(name: str, variables: Mapping[str, Any]) -> str | None:
    if not variables:
        return None
    return _first(bounds.of_json(name, dict(variables), VARIABLES_BYTES_MAX))


def _trouble_of_headers(headers: tuple[tuple[str, str], ...]) -> str | None:
    if len(headers) > HEADERS_MAX:
        return f"`headers` has more than {HEADERS_MAX}; take some away"
    for name, value in headers:
        if bounds.HEADER_NAME.fullmatch(name) is None:
            return f"`headers` has {name[:80]!r}, which is no name of a header; correct it"
        if _RESERVED_HEADERS.fullmatch(name):
            return f"`headers` has {name!r}, which the mail or its provider sets; take it away"
        if (trouble := trouble_of_line(f"headers.{name}", value, HEADER_CHARS_MAX)) is not None:
            return trouble
    return None


def _trouble_of_attachments(attachments: tuple[OutgoingAttachment, ...]) -> str | None:
    if len(attachments) > ATTACHMENTS_MAX:
        return f"`attachments` has more than {ATTACHMENTS_MAX} files; take some away"
    for one in attachments:
        trouble = trouble_of_line("attachments.name", one.name, NAME_CHARS_MAX)
        if trouble is not None:
            return trouble
        if not one.name or "/" in one.name or "\\" in one.name:
            return f"`attachments` has the name {one.name[:80]!r}; write a file name without a path"
        if _MEDIA_TYPE.fullmatch(one.type) is None:
            return f"`attachments` has the type {one.type[:80]!r}; write it as application/pdf"
        if one.content_id is not None and _CONTENT_ID.fullmatch(one.content_id) is None:
            return f"`attachments` has the content id {one.content_id[:80]!r}; use plain letters"
    return None


def _trouble_of_tags(tags: tuple[str, ...]) -> str | None:
    if len(tags) > TAGS_MAX:
        return f"`tags` has more than {TAGS_MAX}; take some away"
    for tag in tags:
        if _TAG.fullmatch(tag) is None:
            return f"`tags` has {tag[:80]!r}; use 1 to {TAG_CHARS_MAX} of A-Z a-z 0-9 _ . : -"
    return None


def _trouble_of_metadata(metadata: Mapping[str, str]) -> str | None:
    if len(metadata) > METADATA_MAX:
        return f"`metadata` has more than {METADATA_MAX} fields; take some away"
    for name, value in metadata.items():
        if _METADATA_NAME.fullmatch(name) is None:
            return f"`metadata` has the name {name[:80]!r}; use 1 to 50 of A-Z a-z 0-9 _ -"
        if name.lower() == ID_NAME:
            return f"`metadata` has {name!r}, which mailonce sets itself; take it away"
        trouble = trouble_of_line(f"metadata.{name}", value, METADATA_CHARS_MAX)
        if trouble is not None:
            return trouble
    return None
