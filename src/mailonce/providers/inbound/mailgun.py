"""Mailgun routes: https://documentation.mailgun.com/docs/mailgun/user-manual/receive-forward-store/receive-http.

`forward()` posts a form: the mail itself as `body-mime` where the URL ends in "mime", else what
Mailgun read from it, in UTF-8. `store(notify=…)` posts where the mail can be fetched for three
days, as `message-url`. The signature does not cover the mail, and a token is good for one body.
"""

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mailonce.core import json_text
from mailonce.core.arrivals.mail_fetch import (
    NO_KEY,
    FetchFlow,
    FetchProblem,
    FetchRequest,
    MailFetch,
    kept_fields,
    known_fields,
    status_problem,
    with_credential,
)
from mailonce.core.arrivals.provider import InboundHook
from mailonce.core.arrivals.source import Source
from mailonce.core.mail.incoming import (
    Authentication,
    ContentFormat,
    FetchContent,
    FieldAttachment,
    FieldsContent,
    IncomingMail,
    MailContent,
    MimeContent,
    SpamVerdict,
)
from mailonce.core.reading import mail_fields, values
from mailonce.core.reading.multipart import FormPart
from mailonce.errors import ParseError

WHAT = "mailgun.message"
# A form without a word for an event, and with one of these, is a mail.
MAIL_FIELDS = frozenset({"body-mime", "body-plain", "message-url", "stripped-text"})
TRUST = "trust_spam_headers"

# Stored mail is served by the region that took it.
_MESSAGE_URL = re.compile(
    r"https://(?:[a-z0-9-]{1,60}\.)?api\.(?:eu\.)?mailgun\.net/v[0-9]/domains/"
    r"[A-Za-z0-9.-]{1,253}/messages/[A-Za-z0-9=_-]{1,500}"
)
# Of a mail with these, the text that Mailgun always posts was made from the HTML.
_HTML_ALONE = ("text/html", "multipart/related")


def is_mail(parts: Sequence[FormPart]) -> bool:
    """Tell a mail from the events that old accounts post as forms."""
    names = {part.name for part in parts}
    return "event" not in names and "recipient" in names and not names.isdisjoint(MAIL_FIELDS)


def parse_mail(parts: Sequence[FormPart], source: Source) -> IncomingMail:
    """Read the one mail of a post.

    Raises: ParseError where it names another place than Mailgun's to fetch it from.
    """
    fields: dict[str, bytes] = {}
    for part in parts:
        if part.filename is None:
            fields.setdefault(part.name, part.content)
    headers = mail_fields.header_pairs(_json(fields, "message-headers"))
    recipients = [one.strip() for one in _text(fields, "recipient").split(",")]
    trusted = headers if source.options.get(TRUST) is True else ()
    return IncomingMail(
        envelope=mail_fields.envelope_of(_text(fields, "sender"), recipients),
        content=_content(fields, headers, parts),
        authentication=_authentication(trusted),
        spam=_spam(trusted),
        is_signed=False,
    )


def _content(
    fields: Mapping[str, bytes], headers: tuple[tuple[str, str], ...], parts: Sequence[FormPart]
) -> MailContent:
    if "body-mime" in fields:
        return MimeContent(fields["body-mime"])
    known = _fields_content(fields, headers, parts)
    if "message-url" not in fields:
        return known
    url = _text(fields, "message-url")
    if not _MESSAGE_URL.fullmatch(url):
        raise ParseError("the 'message-url' is not one of Mailgun's")
    return FetchContent(what=WHAT, arguments={"url": url, "fields": kept_fields(known)})


def _fields_content(
    fields: Mapping[str, bytes], headers: tuple[tuple[str, str], ...], parts: Sequence[FormPart]
) -> FieldsContent:
    html = mail_fields.text_of(_text(fields, "body-html"))
    kind = (mail_fields.header_of(headers, "content-type") or "").strip().lower()
    return FieldsContent(
        headers=headers,
        message_id=mail_fields.header_of(headers, "message-id"),
        from_=mail_fields.mailboxes_of(_text(fields, "from")),
        to=mail_fields.mailboxes_of(mail_fields.header_of(headers, "to")),
        cc=mail_fields.mailboxes_of(mail_fields.header_of(headers, "cc")),
        reply_to=mail_fields.mailboxes_of(mail_fields.header_of(headers, "reply-to")),
        subject=mail_fields.text_of(_text(fields, "subject")),
        date=mail_fields.header_of(headers, "date"),
        text=mail_fields.text_of(_text(fields, "body-plain")),
        is_text_derived=html is not None and kind.startswith(_HTML_ALONE),
        html=html,
        reply_text=mail_fields.text_of(_text(fields, "stripped-text")),
        attachments=tuple(_attachments(_json(fields, "content-id-map"), parts)),
    )


def _attachments(content_ids: Any, parts: Sequence[FormPart]) -> Iterator[FieldAttachment]:
    by_part = {
        place: content_id
        for content_id, place in values.mapping_of(content_ids).items()
        if isinstance(place, str)
    }
    for part in parts:
        if part.filename is None and not part.name.startswith("attachment-"):
            continue
        if part.name == "attachment-count":
            continue
        content_id = mail_fields.content_id_of(by_part.get(part.name))
        yield FieldAttachment(
            name=values.text_of(part.filename),
            type=mail_fields.type_of(part.type),
            content=part.content,
            content_id=content_id,
            is_inline=content_id is not None,
        )


def _authentication(headers: tuple[tuple[str, str], ...]) -> Authentication | None:
    spf = mail_fields.check_of(mail_fields.only_header(headers, "x-mailgun-spf"))
    dkim = mail_fields.check_of(mail_fields.only_header(headers, "x-mailgun-dkim-check-result"))
    if spf is None and dkim is None:
        return None
    return Authentication(spf=spf, dkim=() if dkim is None else (dkim,))


def _spam(headers: tuple[tuple[str, str], ...]) -> SpamVerdict | None:
    flag = (mail_fields.only_header(headers, "x-mailgun-sflag") or "").strip().lower()
    score = mail_fields.number_of(mail_fields.only_header(headers, "x-mailgun-sscore"))
    is_spam = {"yes": True, "no": False}.get(flag)
    return None if is_spam is None and score is None else SpamVerdict(is_spam=is_spam, score=score)


def _json(fields: Mapping[str, bytes], name: str) -> Any:
    try:
        return json_text.read(fields.get(name, b"null"))
    except ParseError:
        return None


def _text(fields: Mapping[str, bytes], name: str) -> str:
    return fields.get(name, b"").decode("utf-8", "replace")


def fetch_message(arguments: Mapping[str, Any], source: Source) -> FetchFlow:
    """Fetch a stored mail, as its own bytes."""
    del source
    url = values.word_of(arguments.get("url"))
    if not _MESSAGE_URL.fullmatch(url):
        return FetchProblem(reason="the mail's URL is not one of Mailgun's", is_final=True)
    # The word is Mailgun's: https://documentation.mailgun.com/docs/mailgun/user-manual/receive-forward-store/view-stored-messages
    answer = yield FetchRequest(url=url, headers=(("Accept", "message/rfc2822"),))
    problem = status_problem(answer)
    if problem is not None:
        return problem
    try:
        mime = values.mapping_of(json_text.read(answer.body)).get("body-mime")
    except ParseError:
        mime = None
    if not isinstance(mime, str):
        return FetchProblem(reason="Mailgun's answer has no text 'body-mime'")
    return mail_fields.mime_of(mime)


def authorize(request: FetchRequest, source: Source, now_ms: int) -> FetchRequest | FetchProblem:
    """Log in with the account's API key."""
    del now_ms
    if not source.api_keys:
        return NO_KEY
    basic = b64encode(f"api:{source.api_keys[0]}".encode()).decode()
    return with_credential(request, "Authorization", f"Basic {basic}")


INBOUND = InboundHook(
    docs="https://documentation.mailgun.com/docs/mailgun/user-manual/receive-forward-store/receive-http",
    content=(ContentFormat.MIME, ContentFormat.FETCH, ContentFormat.FIELDS),
    envelope="`sender`, `recipient`",
    signs_mail=False,
    retry_horizon_s=8 * 3600,
    differences=(
        "Without the mail's own bytes, a text is always there: Mailgun makes one from the HTML.",
        "A stored mail comes back as text, so bytes that are no UTF-8 are lost.",
    ),
    flags={
        TRUST: "believe the `X-Mailgun-…` headers: say so only where the domain's spam filter is "
        "on, since Mailgun adds them only then and a sender can write them, too",
    },
    fetches=(
        MailFetch(what=WHAT, begin=fetch_message, authorize=authorize, fallback=known_fields),
    ),
)
