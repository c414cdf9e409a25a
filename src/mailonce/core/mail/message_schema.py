"""The JSON Schema of `mailonce.message/1`: a mail that came in, as the API and webhooks show it."""

from collections.abc import Iterable
from typing import Any, get_args

from mailonce.core.mail.bodies import TextOrigin
from mailonce.core.mail.delivery_report import ReportAction, ReportKind
from mailonce.core.mail.incoming import AuthenticationResult, EnvelopeOrigin
from mailonce.core.mail.mail_kind import MailKind
from mailonce.core.mail.problem import MailProblem
from mailonce.core.mail.protection import Standard

SCHEMA = "mailonce.message/1"

_TEXT = {"type": "string"}
_MAYBE_TEXT = {"type": ["string", "null"]}
_FLAG = {"type": "boolean"}
_TIME = {"type": "string", "format": "date-time"}
_MAYBE_TIME = {"type": ["string", "null"], "format": "date-time"}
_HASH = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_IDS = {"type": "array", "items": _TEXT}


def message_schema() -> dict[str, Any]:
    """Write the schema. Fields may be added to it; none is taken away or changes its meaning."""
    mailbox = _object({"address": _TEXT, "name": _MAYBE_TEXT})
    mailboxes = {"type": "array", "items": mailbox}
    fields = {
        "schema": {"const": SCHEMA},
        "id": _with(_id("msg"), "The message's id, equal for all copies of one mail in one inbox."),
        "seq": _with({"type": "integer", "minimum": 1}, "Its number in the inbox; the cursor."),
        "inbox": _with(_TEXT, "The id of the inbox."),
        "address": _with(_TEXT, "The address that it came to, from the envelope."),
        "received_at": _with(_TIME, "When it was accepted."),
        "message_id": _with(_MAYBE_TEXT, "Message-ID without brackets; the sender's word."),
        "from": _with(_maybe(mailbox), "The first sender; domains are in ASCII and lower case."),
        "sender": _maybe(mailbox),
        "reply_to": mailboxes,
        "to": mailboxes,
        "cc": mailboxes,
        "bcc": mailboxes,
        "subject": _with(_MAYBE_TEXT, "Decoded, on one line."),
        "date": _with(_MAYBE_TIME, "The sender's own time; it may be absurd."),
        "date_raw": _with(_MAYBE_TEXT, "The same in the sender's words."),
        "in_reply_to": _IDS,
        "references": _IDS,
        "thread": _with(_MAYBE_TEXT, "A key that a mail and the answers to it share."),
        "kind": _with(_words(MailKind), "What sort of mail it is."),
        "auto_submitted": _with(_MAYBE_TEXT, "The word of Auto-Submitted, such as auto-replied."),
        "about_message_id": _with(
            _MAYBE_TEXT, "The Message-ID that a report or an automatic reply is about."
        ),
        "report": _with(_maybe(_report()), "What a bounce, receipt or complaint reports."),
        "calendar": _with(_maybe(_calendar()), "The first event of a calendar part."),
        "text": _with(_MAYBE_TEXT, "What it says, as text."),
        "text_origin": _with(
            {"enum": [*get_args(TextOrigin), None]}, "A text part, its HTML, or the provider."
        ),
        "text_truncated": _FLAG,
        "reply_text": _with(_MAYBE_TEXT, "The text without quoted history and signature."),
        "html": _with(_MAYBE_TEXT, "As the sender wrote it: sanitise it before you show it."),
        "html_truncated": _FLAG,
        "attachments": {"type": "array", "items": _attachment()},
        "signed": _with({"enum": [*get_args(Standard), None]}, "Signed; not verified here."),
        "encrypted": {"enum": [*get_args(Standard), None]},
        "envelope": _envelope(),
        "authentication": _with(_maybe(_authentication()), "Null where nobody checked."),
        "spam": _maybe(_spam()),
        "headers": _with(
            {"type": "array", "items": {**_IDS, "minItems": 2, "maxItems": 2}},
            "Names and values in order, repeats kept, not decoded; bounded.",
        ),
        "problems": _with(
            {"type": "array", "items": _words(MailProblem), "uniqueItems": True},
            "What was wrong with the mail.",
        ),
        "raw": _object({"bytes": {"type": ["integer", "null"]}, "sha256": _maybe(_HASH)}),
        "source": _with({"type": ["object", "null"]}, "The door or source that it came through."),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:mailonce:schema:mailonce.message:1",
        "title": SCHEMA,
        "description": "A mail that came to one inbox. What its sender wrote is data.",
        **_object(fields),
    }


def _report() -> dict[str, Any]:
    recipient = {
        "address": _MAYBE_TEXT,
        "action": {"enum": [*get_args(ReportAction), None]},
        "status": _with(_MAYBE_TEXT, "An enhanced status code such as 5.1.1."),
        "diagnostic": _MAYBE_TEXT,
        "remote_mta": _MAYBE_TEXT,
    }
    return _object(
        {
            "kind": {"enum": list(get_args(ReportKind))},
            "recipients": {"type": "array", "items": _object(recipient)},
            "reporting_mta": _MAYBE_TEXT,
            "original_message_id": _MAYBE_TEXT,
            "original_subject": _MAYBE_TEXT,
            "original_send_id": _MAYBE_TEXT,
            "original_envelope_id": _MAYBE_TEXT,
            "detail": _MAYBE_TEXT,
        }
    )


def _calendar() -> dict[str, Any]:
    names = ("method", "uid", "summary", "starts", "ends", "location")
    return _object(dict.fromkeys(names, _MAYBE_TEXT))


def _attachment() -> dict[str, Any]:
    always = _object(
        {
            "id": _id("att"),
            "name": _with(_MAYBE_TEXT, "Cleaned: never a path, nothing invisible."),
            "type": _with(_TEXT, "The sender's word."),
            "detected_type": _with(_MAYBE_TEXT, "What its first bytes show."),
            "bytes": {"type": "integer", "minimum": 0},
            "sha256": _HASH,
            "disposition": {"enum": ["attachment", "inline"]},
            "content_id": _MAYBE_TEXT,
        }
    )
    delivered = {
        "url": _with(_TEXT, "In deliveries alone: a link that needs no key, and expires."),
        "content": _with(
            _TEXT, "In deliveries alone, within `inline_bytes_max` of the route: the bytes, base64."
        ),
    }
    return {**always, "properties": {**always["properties"], **delivered}}


def _envelope() -> dict[str, Any]:
    return _object(
        {
            "mail_from": _with(_MAYBE_TEXT, "Empty for bounces; null where it is unknown."),
            "recipients": {"type": "array", "items": _TEXT},
            "origin": {"enum": list(get_args(EnvelopeOrigin))},
            "helo": _MAYBE_TEXT,
            "client_ip": _MAYBE_TEXT,
            "tls": _MAYBE_TEXT,
            "user": _with(_MAYBE_TEXT, "Who logged in to the SMTP door; null where nobody did."),
        }
    )


def _authentication() -> dict[str, Any]:
    check = _object(
        {
            "result": {"enum": list(get_args(AuthenticationResult))},
            "domain": _MAYBE_TEXT,
            "detail": _MAYBE_TEXT,
        }
    )
    return _object(
        {
            "spf": _maybe(check),
            "dkim": {"type": "array", "items": check},
            "dmarc": _maybe(check),
            "arc": _maybe(check),
            "checked_by": _with(
                {"enum": ["provider", "server", "self"]},
                "The provider, a mail server that is trusted, or this one.",
            ),
            "server": _with(_MAYBE_TEXT, "The name of the trusted mail server."),
        }
    )


def _spam() -> dict[str, Any]:
    flag = {"type": ["boolean", "null"]}
    score = {"type": ["number", "null"]}
    return _object({"is_spam": flag, "score": score, "engine": _MAYBE_TEXT, "has_virus": flag})


def _object(fields: dict[str, Any]) -> dict[str, Any]:
    """All fields are there; a later version of the same schema may have more."""
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": True,
    }


def _maybe(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def _words(words: Iterable[str]) -> dict[str, Any]:
    return {"enum": [str(word) for word in words]}


def _id(prefix: str) -> dict[str, Any]:
    return {"type": "string", "pattern": f"^{prefix}_[0-9a-f]{{32}}$"}


def _with(schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {**schema, "description": description}
