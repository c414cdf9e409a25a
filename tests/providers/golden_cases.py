"""Golden cases: bodies and the events they mean, both written by hand from the documentation."""

import json
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mailonce.core.event import Event, EventType
from mailonce.core.key import Identity, Recipe

FOLDER = Path(__file__).parent / "golden"
_DEFAULT = Event(
    type=EventType.OTHER, identity=Identity(Recipe(name="-", version=1, identity=()), {})
)


def cases_of(provider: str) -> list[Any]:
    """Give each case of a provider, named by its file."""
    return [
        pytest.param(json.loads(path.read_text()), id=path.stem)
        for path in sorted((FOLDER / provider).glob("*.json"))
    ]


def shown(event: Event) -> dict[str, Any]:
    """Show what of an event is not the default, in the words of a golden file."""
    said: dict[str, Any] = {"type": event.type}
    for field in fields(event):
        value = getattr(event, field.name)
        if field.name not in {"type", "identity", "raw"} and value != getattr(_DEFAULT, field.name):
            said[field.name] = list(value) if isinstance(value, tuple) else value
    if "occurred_ms" in said:
        moment = datetime.fromtimestamp(said.pop("occurred_ms") / 1000, UTC)
        said["occurred_at"] = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return said
