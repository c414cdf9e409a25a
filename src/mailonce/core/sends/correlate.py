"""How our id of a send travels with a mail, and is found again in an event about it."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from mailonce.core.events.event import Event
from mailonce.core.reading.values import mapping_of, texts_of
from mailonce.core.sends.sending import ID_HEADER, ID_NAME, Correlation

# A tag has no name beside it, so its value says whose it is.
TAG_PREFIX = "mailonce-"
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_LOWER_HEADER = ID_HEADER.lower()
_NAMES = frozenset({ID_NAME, ID_HEADER, _LOWER_HEADER})


def tag_of(correlation: Correlation) -> str:
    return TAG_PREFIX + correlation.uuid


def uuid_of(event: Event) -> str | None:
    """Find our id among the sender's own data of an event, or among its tags."""
    # Most events were not caused by a send of ours, and every event is looked at: so first it is
    # only asked whether there is anything of ours.
    metadata = event.metadata
    if metadata and not _NAMES.isdisjoint(metadata):
        uuids = [as_uuid(metadata.get(name)) for name in (ID_NAME, ID_HEADER, _LOWER_HEADER)]
        uuid = next((one for one in uuids if one is not None), None)
        if uuid is not None:
            return uuid
    return uuid_in_tags(event.tags) if event.tags else None


def uuid_in_tags(tags: Iterable[str]) -> str | None:
    for tag in tags:
        if tag.startswith(TAG_PREFIX):
            uuid = as_uuid(tag.removeprefix(TAG_PREFIX))
            if uuid is not None:
                return uuid
    return None


def uuid_in_headers(headers: Iterable[Mapping[str, Any]]) -> str | None:
    """Find our id among headers as `{"name": …, "value": …}`."""
    for header in headers:
        name = header.get("name")
        if isinstance(name, str) and name.lower() == _LOWER_HEADER:
            return as_uuid(header.get("value"))
    return None


def is_in(metadata: Any, correlation: Correlation) -> bool:
    """Say whether the sender's own data, as an API gives them back, have the id of this send."""
    return as_uuid(mapping_of(metadata).get(ID_NAME)) == correlation.uuid


def is_tagged(tags: Any, correlation: Correlation) -> bool:
    return uuid_in_tags(texts_of(tags)) == correlation.uuid


def as_uuid(value: Any) -> str | None:
    """Read a value as the id of a send; anything else is None."""
    if not isinstance(value, str) or not _UUID.fullmatch(value.strip()):
        return None
    return value.strip().lower()
