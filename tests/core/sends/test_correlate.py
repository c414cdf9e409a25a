"""Our id in an event: found where it was put, and nothing else is taken for it."""

from typing import Any

import pytest

from mailonce.core.events.event import Event, EventType
from mailonce.core.events.key import WHOLE, Identity
from mailonce.core.sends import correlate
from tests.core.sends.mails import CORRELATION, UUID


def event(**fields: Any) -> Event:
    return Event(type=EventType.SENT, identity=Identity(WHOLE, {}), **fields)


CASES: dict[str, tuple[dict[str, Any], str | None]] = {
    "metadata": ({"metadata": {"order": "7", "mailonce_id": UUID}}, UUID),
    "a header among the metadata": ({"metadata": {"X-Mailonce-Id": UUID}}, UUID),
    "a header in lower case": ({"metadata": {"x-mailonce-id": UUID}}, UUID),
    "upper case": ({"metadata": {"mailonce_id": UUID.upper()}}, UUID),
    "a tag": ({"tags": ("welcome", f"mailonce-{UUID}")}, UUID),
    "a tag of somebody else's": ({"tags": (UUID,)}, None),
    "no UUID": ({"metadata": {"mailonce_id": "1"}, "tags": ("mailonce-1",)}, None),
    "no text": ({"metadata": {"mailonce_id": None}}, None),
    "a broken one, then a good one": (
        {"metadata": {"mailonce_id": "1"}, "tags": ("mailonce-x", f"mailonce-{UUID}")},
        UUID,
    ),
    "nothing": ({}, None),
}


@pytest.mark.parametrize("name", CASES)
def test_our_id_in_an_event(name: str) -> None:
    fields, uuid = CASES[name]

    assert correlate.uuid_of(event(**fields)) == uuid


def test_our_id_among_headers() -> None:
    headers: list[dict[str, Any]] = [{"name": 7}, {"name": "x-MAILONCE-id", "value": f" {UUID}"}]

    assert correlate.uuid_in_headers(headers) == UUID
    assert correlate.uuid_in_headers(headers[:1]) is None


def test_a_tag_leads_back() -> None:
    assert correlate.is_tagged([correlate.tag_of(CORRELATION)], CORRELATION)
    assert not correlate.is_tagged(None, CORRELATION)
    assert correlate.is_in({"mailonce_id": UUID}, CORRELATION)
    assert not correlate.is_in(["mailonce_id"], CORRELATION)
