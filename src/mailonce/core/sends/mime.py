"""A mail as MIME, for SMTP and for the APIs that take whole messages.

The same mail always makes the same bytes: boundaries are hashes of what they part, so that nothing
random is in them and no content can hold its own.
"""

import re
from base64 import encodebytes
from binascii import b2a_qp
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import quote

from mailonce.core import ids
from mailonce.core.sends import header_text
from mailonce.core.sends.outgoing_mail import OutgoingAttachment, OutgoingMail
from mailonce.core.sends.sending import ID_HEADER, Correlation

# RFC 5322 allows 998, and some servers count the line end.
LINE_BYTES_MAX = 990
_LINE_END = re.compile(r"\r\n|\r|\n")
_FILE_NAME = re.compile(r"[A-Za-z0-9 !#$&+.^_`{}~()\[\]@-]{1,60}")
_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,100}/[A-Za-z0-9!#$&^_.+-]{1,100}")
_MESSAGES = re.compile(r"(?i)multipart/|message/")
_CONTENT_ID = re.compile(r"[!-;=?-~]{1,250}")
# Of a file's name in a header, so much on each line.
_NAME_CHARS = 50


class _Part(NamedTuple):
    """A part of a message: its headers, and its body with CRLF."""

    head: bytes
    body: bytes


def mime_of(
    mail: OutgoingMail, correlation: Correlation, further: Sequence[tuple[str, str]] = ()
) -> bytes:
    """Write a mail as one message; `further` headers are the provider's own.

    Its body is ASCII; a header is not where an address is not, which needs SMTPUTF8.
    """
    head = [
        header_text.header("Date", _date(mail, correlation)),
        header_text.mailboxes("From", [mail.from_]),
        header_text.mailboxes("To", [mail.to]),
        *([header_text.mailboxes("Reply-To", mail.reply_to)] if mail.reply_to else []),
        header_text.header("Subject", mail.subject),
        header_text.header("Message-ID", mail.message_id),
        header_text.header(ID_HEADER, correlation.uuid),
        *(header_text.header(name, value.strip()) for name, value in (*mail.headers, *further)),
        b"MIME-Version: 1.0\r\n",
    ]
    content = _content(mail)
    return b"".join([*head, content.head, b"\r\n", content.body])


def _date(mail: OutgoingMail, correlation: Correlation) -> str:
    ms = mail.date_ms
    if ms is None:
        ms = ids.minted_ms(ids.private("snd", correlation.send))
    return format_datetime(datetime.fromtimestamp(ms // 1000, UTC))


def _content(mail: OutgoingMail) -> _Part:
    """Nest what a mail has as its readers expect: files( alternatives( text, related( HTML )))."""
    inline = [one for one in mail.attachments if one.content_id is not None]
    files = [one for one in mail.attachments if one.content_id is None]
    versions = []
    if mail.text is not None:
        versions.append(_text("plain", mail.text))
    if mail.html is not None:
        html = _text("html", mail.html)
        versions.append(_together("related", [html, *map(_file, inline)]))
    elif inline:
        files = [*inline, *files]
    content = _together("alternative", versions or [_text("plain", "")])
    return _together("mixed", [content, *map(_file, files)])


def _together(subtype: str, parts: Sequence[_Part]) -> _Part:
    """Join parts; one alone needs nothing around it."""
    if len(parts) == 1:
        return parts[0]
    hash_ = sha256(subtype.encode())
    for part in parts:
        hash_.update(part.head)
        hash_.update(part.body)
    boundary = f"=_{hash_.hexdigest()[:32]}".encode()
    body = b"".join(
        b"--" + boundary + b"\r\n" + part.head + b"\r\n" + part.body + b"\r\n" for part in parts
    )
    kind = f'Content-Type: multipart/{subtype};\r\n boundary="{boundary.decode()}"\r\n'
    return _Part(kind.encode(), body + b"--" + boundary + b"--\r\n")


def _text(subtype: str, text: str) -> _Part:
    raw = _LINE_END.sub("\r\n", text if text.endswith("\n") else f"{text}\n").encode()
    kind = f"Content-Type: text/{subtype}; charset=utf-8\r\n"
    others = len(raw) - len(text.encode("ascii", "ignore"))
    if raw.isascii() and max(map(len, raw.split(b"\r\n"))) <= LINE_BYTES_MAX:
        return _Part(f"{kind}Content-Transfer-Encoding: 7bit\r\n".encode(), raw)
    # Two more bytes for each that is not ASCII, or a third more for all of them.
    if others > len(raw) // 6:
        return _Part(f"{kind}Content-Transfer-Encoding: base64\r\n".encode(), _base64(raw))
    body = b2a_qp(raw, istext=True)
    return _Part(f"{kind}Content-Transfer-Encoding: quoted-printable\r\n".encode(), body)


def _file(attachment: OutgoingAttachment) -> _Part:
    kind = "attachment" if attachment.content_id is None else "inline"
    # A message within a message may not be encoded, so it is a file like another.
    is_file = _TYPE.fullmatch(attachment.type) and not _MESSAGES.match(attachment.type)
    head = [
        f"Content-Type: {attachment.type if is_file else 'application/octet-stream'}\r\n",
        f"Content-Disposition: {kind}{_file_name(attachment.name)}\r\n",
        "Content-Transfer-Encoding: base64\r\n",
    ]
    if attachment.content_id is not None:
        assert _CONTENT_ID.fullmatch(attachment.content_id), "a content id is plain ASCII"
        head.append(f"Content-ID: <{attachment.content_id}>\r\n")
    return _Part("".join(head).encode(), _base64(attachment.content))


def _file_name(name: str) -> str:
    if _FILE_NAME.fullmatch(name):
        return f';\r\n filename="{name}"'
    escaped, pieces = f"utf-8''{quote(name, safe='')}", []
    while escaped:
        # A piece may not end within an escape.
        end = min(len(escaped), _NAME_CHARS)
        if escaped[end:] and "%" in escaped[end - 2 : end]:
            end = escaped.rindex("%", 0, end)
        pieces.append(escaped[:end])
        escaped = escaped[end:]
    if len(pieces) == 1:
        return f";\r\n filename*={pieces[0]}"
    return "".join(f";\r\n filename*{n}*={piece}" for n, piece in enumerate(pieces))


def _base64(data: bytes) -> bytes:
    return encodebytes(data).replace(b"\n", b"\r\n")
