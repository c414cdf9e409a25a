"""How a fake reads forms, and mail that comes as the message itself."""

import re
from base64 import b64decode
from email import message_from_bytes
from email.errors import MessageError
from email.header import decode_header, make_header
from typing import NamedTuple
from urllib.parse import parse_qsl

from mailonce.testing.fakes.http_server import FakeRequest
from mailonce.testing.fakes.reading import CallRefusedError, FakeRecipient, Fields

_BOUNDARY = re.compile(r'boundary=(?:"([^"]+)"|([^\s;"]+))')
_NAME = re.compile(
    rb'^content-disposition:[^\r\n]*?;\s*name=(?:"([^"]*)"|([^\s;"]+))',
    re.IGNORECASE | re.MULTILINE,
)
_FOLD = re.compile(r"\r?\n(?=[ \t])")


class FormField(NamedTuple):
    """A field of a form; a file is one, too."""

    name: str
    value: bytes

    @property
    def text(self) -> str:
        return self.value.decode("utf-8", "replace")


class MimeMail(NamedTuple):
    """The headers of a message, decoded."""

    headers: list[tuple[str, str]]

    def header(self, name: str) -> str:
        """Give the first header of that name, or nothing."""
        return next((value for one, value in self.headers if one.lower() == name), "")

    def recipients(self) -> list[FakeRecipient]:
        """Give all to whom the headers address it."""
        names = ("to", "cc", "bcc")
        return Fields({name: self.header(name) for name in names}).listed_addresses(*names)


def read_form(request: FakeRequest) -> list[FormField]:
    """Read a form, urlencoded or in parts; anything else refuses the call."""
    match request.content_type:
        case "application/x-www-form-urlencoded":
            pairs = parse_qsl(request.body.decode("utf-8", "replace"), keep_blank_values=True)
            return [FormField(name, value.encode()) for name, value in pairs]
        case "multipart/form-data":
            return _read_parts(request)
        case type_:
            raise CallRefusedError(
                f"this fake knows {request.call} with a form alone, and the Content-Type is"
                f" {type_!r}",
                status=415,
            )


def read_mime(raw: bytes) -> MimeMail:
    """Read the headers of a message."""
    message = message_from_bytes(raw)
    return MimeMail([(name, _decoded(str(value))) for name, value in message.items()])


def read_base64_mime(fields: Fields, name: str) -> MimeMail:
    """Read the headers of a message in a field of base64."""
    text = fields.need_text(name)
    try:
        return read_mime(b64decode(text, validate=True))
    except ValueError:
        raise fields.wrong(name, "is no valid base64") from None


def _read_parts(request: FakeRequest) -> list[FormField]:
    boundary = _BOUNDARY.search(request.headers["content-type"])
    if boundary is None:
        raise CallRefusedError("the Content-Type has no boundary", status=400)
    mark = b"\r\n--" + (boundary[1] or boundary[2]).encode("latin-1")
    fields: list[FormField] = []
    for part in (b"\r\n" + request.body).split(mark)[1:]:
        if part.startswith(b"--"):
            return fields
        head, gap, value = part.partition(b"\r\n\r\n")
        name = _NAME.search(head)
        if not gap or name is None:
            raise CallRefusedError("a part of the form has no name", status=400)
        fields.append(FormField((name[1] or name[2] or b"").decode("utf-8", "replace"), value))
    raise CallRefusedError("the form has no end", status=400)


def _decoded(value: str) -> str:
    unfolded = _FOLD.sub("", value)
    try:
        return str(make_header(decode_header(unfolded)))
    except (LookupError, ValueError, MessageError):
        return unfolded
