"""The golden cases of mail: requests as providers post them, and the mails expected by hand."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mailonce.core.arrivals.provider import Parsed
from mailonce.core.arrivals.source import Source
from mailonce.core.mail.incoming import (
    FetchContent,
    FieldAttachment,
    FieldsContent,
    IncomingMail,
    MailEnvelope,
    MimeContent,
)
from tests.providers.cases import arrival_of, provider_of, source_of

GOLDEN = Path(__file__).parent / "golden"
# What a mail says that says nothing.
_PLAIN_MAIL = IncomingMail(
    envelope=MailEnvelope(recipients=(), origin="provider"), content=MimeContent(b"")
)
_PLAIN_FILE = FieldAttachment(name=None, type="", content=b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class MailCase:
    provider: str
    name: str
    settings: Mapping[str, Any]
    headers: Mapping[str, str]
    # The JSON value; None where the body is another format.
    value: Any
    body: bytes
    mails: list[dict[str, Any]]
    # How many elements could not be read.
    unreadable: int

    def __str__(self) -> str:
        return f"{self.provider}/{self.name}"

    @property
    def source(self) -> Source:
        return source_of(self.provider, **self.settings)

    def parse(self, body: bytes | None = None) -> Parsed:
        arrival = arrival_of(self.body if body is None else body, self.headers)
        return provider_of(self.provider).parse(arrival, self.source)


@cache
def all_cases() -> tuple[MailCase, ...]:
    cases = tuple(_load(path) for path in sorted(GOLDEN.glob("*/*.json")))
    assert cases, f"there are no golden cases in {GOLDEN}"
    return cases


def each_provider() -> pytest.MarkDecorator:
    """Run a test once per provider: it goes through all its `cases` as subtests."""
    groups = {
        provider: tuple(some) for provider, some in groupby(all_cases(), lambda case: case.provider)
    }
    return pytest.mark.parametrize("cases", list(groups.values()), ids=list(groups))


def show(mail: IncomingMail) -> dict[str, Any]:
    """List what a mail says, and nothing that it does not; a byte is shown as a character."""
    shown = _said(mail, _PLAIN_MAIL)
    shown["envelope"] = _said(mail.envelope, _PLAIN_MAIL.envelope) | {
        "recipients": list(mail.envelope.recipients),
        "origin": mail.envelope.origin,
    }
    match mail.content:
        case MimeContent(raw=raw):
            shown["content"] = {"mime": raw.decode("latin-1")}
        case FieldsContent() as fields:
            shown["content"] = {"fields": show_fields(fields)}
        case FetchContent(what=what, arguments=arguments):
            told = {name: value for name, value in arguments.items() if name != "fields"}
            shown["content"] = {"fetch": what, "arguments": told}
            if "fields" in arguments:
                known = msgspec.convert(arguments["fields"], FieldsContent)
                shown["content"]["fields"] = show_fields(known)
    return shown


def show_fields(fields: FieldsContent) -> dict[str, Any]:
    shown = _said(fields, FieldsContent())
    if fields.attachments:
        shown["attachments"] = [
            _said(one, _PLAIN_FILE) | {"content": one.content.decode("latin-1")}
            for one in fields.attachments
        ]
    return shown


def _said(one: Any, plain: Any) -> dict[str, Any]:
    return {
        name.rstrip("_"): _written(getattr(one, name))
        for name in one.__struct_fields__
        if getattr(one, name) != getattr(plain, name) and name != "content"
    }


def _written(value: Any) -> Any:
    """Write as JSON would; of a record only what is there."""
    if isinstance(value, tuple):
        return [_written(one) for one in value]
    if isinstance(value, msgspec.Struct):
        pairs = ((name, getattr(value, name)) for name in value.__struct_fields__)
        return {name: _written(one) for name, one in pairs if one is not None and one != ()}
    return value


def _load(path: Path) -> MailCase:
    document = json.loads(path.read_text())
    value = document.get("body")
    if "body_bytes" in document:
        body = document["body_bytes"].encode("latin-1")
    else:
        body = json.dumps(value).encode()
    settings = {
        name: tuple(one) if isinstance(one, list) else one
        for name, one in document.get("settings", {}).items()
    }
    return MailCase(
        provider=path.parent.name,
        name=path.stem,
        settings=settings,
        headers=document["headers"],
        value=value,
        body=body,
        mails=document["mails"],
        unreadable=document.get("unreadable", 0),
    )
