"""Attachments for download, with headers under which no browser runs what a sender wrote."""

import re
from urllib.parse import quote

from mailonce.store.dialects.contract import Database
from mailonce.store.inboxes import messages
from mailonce.store.inboxes.messages import StoredFile

_PLAIN = re.compile(r"[^A-Za-z0-9._ -]")
_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,100}/[A-Za-z0-9!#$&^_.+-]{1,100}")
UNKNOWN_TYPE = "application/octet-stream"
NAME_CHARS_MAX = 200


async def find_file(
    database: Database, workspace: str, message: str, attachment: str
) -> StoredFile | None:
    """Find an attachment of a workspace; its type is one that a header can hold."""
    file = await database.read(lambda tx: messages.file(tx, workspace, message, attachment))
    return None if file is None else file._replace(type=plain_type(file.type))


def plain_type(type_: str) -> str:
    """Give a media type that a header can hold."""
    return type_ if _TYPE.fullmatch(type_) else UNKNOWN_TYPE


def download_headers(name: str) -> dict[str, str]:
    """Have a file saved under its name, and never shown or run."""
    name = name[:NAME_CHARS_MAX] or "attachment"
    plain = _PLAIN.sub("_", name)
    full = quote(name.encode("utf-8", "replace"), safe="")
    return {
        "Content-Disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{full}",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, no-store",
    }
