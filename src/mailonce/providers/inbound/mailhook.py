"""Mailhook's mail, where the source's option `mail` says where its parts stand.

What its webhooks look like is told only to its customers, so nothing is taken for mail unless the
operator has described it: `mail` maps `recipients`, `sender`, `raw`, `raw_base64`, `message_id`,
`from`, `to`, `cc`, `subject`, `date`, `text` and `html` to JSON pointers. Without `recipients` a
mail is for nobody.
"""

from collections.abc import Mapping
from typing import Any

from mailonce.core.arrivals.provider import InboundHook
from mailonce.core.arrivals.source import Source
from mailonce.core.mail.incoming import (
    ContentFormat,
    FieldsContent,
    IncomingMail,
    MimeContent,
)
from mailonce.core.reading import mail_fields, values

OPTION = "mail"
POINTERS_OPTION = "where the parts of a mail stand, as JSON pointers by name"
POINTERS = frozenset(
    """
    recipients sender raw raw_base64 message_id from to cc subject date text html
    """.split()  # noqa: SIM905
)


def parse_mail(
    element: Mapping[str, Any], source: Source, *, delivery_id: str | None
) -> IncomingMail | None:
    """Read a mail as the option describes it; None without the option.

    Raises: ParseError where it is not in the encoding that it claims.
    """
    pointers = source.options.get(OPTION)
    if not isinstance(pointers, Mapping):
        return None

    def at(name: str) -> Any:
        path = pointers.get(name)
        return values.pointer(element, path) if isinstance(path, str) else None

    raw, raw_base64 = values.word_of(at("raw")), values.word_of(at("raw_base64"))
    content: MimeContent | FieldsContent
    if raw:
        content = mail_fields.mime_of(raw)
    elif raw_base64:
        content = mail_fields.mime_in_base64(raw_base64)
    else:
        content = FieldsContent(
            message_id=values.text_of(at("message_id"), 1_000),
            from_=mail_fields.mailboxes_of(at("from")),
            to=mail_fields.mailboxes_of(at("to")),
            cc=mail_fields.mailboxes_of(at("cc")),
            subject=mail_fields.text_of(at("subject")),
            date=values.text_of(at("date"), 200),
            text=mail_fields.text_of(at("text")),
            html=mail_fields.text_of(at("html")),
        )
    return IncomingMail(
        envelope=mail_fields.envelope_of(at("sender"), at("recipients")),
        content=content,
        delivery_id=delivery_id,
        is_signed=source.is_signed,
    )


def fault_of(source: Source) -> str | None:
    """Say in one sentence what is wrong with the option, or None."""
    pointers = source.options.get(OPTION, {})
    is_map = isinstance(pointers, Mapping) and all(
        name in POINTERS and isinstance(path, str) and path.startswith("/")
        for name, path in pointers.items()
    )
    if is_map:
        return None
    return f"option {OPTION!r} must map some of {', '.join(sorted(POINTERS))} to JSON pointers"


INBOUND = InboundHook(
    docs="https://mailhook.co",
    content=(ContentFormat.MIME, ContentFormat.FIELDS),
    envelope="where the option `mail` points",
    signs_mail=True,
    differences=("Its webhooks are not documented in public: the option `mail` describes them.",),
)
