"""A form with files (multipart/form-data), the same bytes for the same fields."""

import re
from collections.abc import Iterable
from hashlib import sha256
from typing import NamedTuple

_PLAIN = re.compile(r"[A-Za-z0-9:._-]{1,100}")


class FormFile(NamedTuple):
    """A file of a form."""

    name: str
    file_name: str
    type: str
    content: bytes


def form_data(fields: Iterable[tuple[str, str]], files: Iterable[FormFile]) -> tuple[str, bytes]:
    """Write a form; give its content type, too.

    Names are ours, and plain. Values may be anything: the boundary is a hash of all of them.
    """
    parts: list[bytes] = []
    for name, value in fields:
        parts += (_head(name), value.encode())
    for file in files:
        assert _PLAIN.fullmatch(file.file_name), f"{file.file_name!r} must be escaped"
        parts += (_head(file.name, file.file_name, file.type), file.content)
    boundary = sha256(b"\0".join(parts)).hexdigest()[:40]
    line = f"--{boundary}\r\n".encode()
    pairs = zip(parts[::2], parts[1::2], strict=True)
    body = b"".join(line + head + content + b"\r\n" for head, content in pairs)
    return f"multipart/form-data; boundary={boundary}", body + f"--{boundary}--\r\n".encode()


def _head(name: str, file_name: str = "", type_: str = "") -> bytes:
    assert _PLAIN.fullmatch(name), f"{name!r} must be escaped"
    more = f'; filename="{file_name}"\r\nContent-Type: {type_}' if file_name else ""
    return f'Content-Disposition: form-data; name="{name}"{more}\r\n\r\n'.encode()
