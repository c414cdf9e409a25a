"""The golden cases: bodies as providers post them, and what was expected of them by hand."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from mailonce import providers
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Parsed, Provider
from mailonce.core.arrivals.source import Source
from mailonce.core.events.key import EventKeys, KeyScope, keys_of

# The time of the signature vectors and of most golden bodies.
NOW_S = 1_767_225_600
GOLDEN = Path(__file__).parent / "golden"
SCOPE = KeyScope(workspace="w", provider="p", account="a")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    provider: str
    name: str
    options: Mapping[str, Any]
    headers: Mapping[str, str]
    # The JSON value, alone or within a form; None where the body is text in another format.
    value: Any
    body: bytes
    events: list[dict[str, Any]]

    def __str__(self) -> str:
        return f"{self.provider}/{self.name}"


@cache
def all_cases() -> tuple[Case, ...]:
    """Give the cases of all providers, read once; nobody changes their values in place."""
    cases = tuple(_load(path) for path in sorted(GOLDEN.glob("*/*.json")))
    assert cases, f"there are no golden cases in {GOLDEN}"
    return cases


def cases_of(provider: str) -> tuple[Case, ...]:
    cases = tuple(case for case in all_cases() if case.provider == provider)
    assert cases, f"there are no golden cases of {provider!r}"
    return cases


def each_provider(cases: Iterable[Case]) -> pytest.MarkDecorator:
    """Run a test once per provider: it takes all its `cases` and goes through them as subtests."""
    groups = {
        provider: tuple(some)
        for provider, some in groupby(
            sorted(cases, key=lambda case: case.provider), lambda case: case.provider
        )
    }
    assert groups, "a test of no case proves nothing"
    return pytest.mark.parametrize("cases", list(groups.values()), ids=list(groups))


def find(provider: str, name: str) -> Case:
    return _load(GOLDEN / provider / f"{name}.json")


def provider_of(name: str) -> Provider:
    provider = providers.find(name)
    assert provider is not None, f"there is no provider {name!r}"
    return provider


def source_of(provider: str, **settings: Any) -> Source:
    plain = Source(id="s1", workspace="w", name="main", provider=provider, account="a")
    return replace(plain, **settings)


def arrival_of(
    body: bytes, headers: Mapping[str, str] | None = None, *, now_s: int = NOW_S
) -> Arrival:
    lowered = {name.lower(): value for name, value in (headers or {}).items()}
    return Arrival(method="POST", headers=lowered, body=body, now_ms=now_s * 1000)


def parse(
    provider: str, value: Any, headers: Mapping[str, str] | None = None, **options: Any
) -> Parsed:
    """Parse a JSON value, or bytes as they are."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    source = source_of(provider, options=options)
    return provider_of(provider).parse(arrival_of(body, headers), source)


def keys(
    provider: str, value: Any, headers: Mapping[str, str] | None = None, **options: Any
) -> list[EventKeys]:
    """Give the keys of all events in a body."""
    parsed = parse(provider, value, headers, **options)
    return [keys_of(SCOPE, event.identity) for event in parsed.events]


def scaleway_envelope(message: Any) -> dict[str, Any]:
    """Wrap an event as a topic of Scaleway publishes it, unsigned."""
    return {
        "Type": "Notification",
        "MessageId": "0b0a-1",
        "TopicArn": "arn:scw:sns:fr-par:project-1f2e:tem-events",
        "Message": json.dumps(message),
        "Timestamp": "2026-01-01T00:00:06.000Z",
        "SigningCertURL": (
            "https://messaging.s3.fr-par.scw.cloud/fr-par/sns/sns_certificate_0123abcd.crt"
        ),
    }


def _load(path: Path) -> Case:
    document = json.loads(path.read_text())
    headers, value, text = document["headers"], document.get("body"), document.get("body_text")
    if "message" in document:
        # What SNS carries, as SNS delivers it without its envelope; test_ses.py wraps it.
        headers, value = {**headers, "x-amz-sns-rawdelivery": "true"}, document["message"]
    if "notification" in document:
        value = scaleway_envelope(document["notification"])
    body = text.encode() if text is not None else json.dumps(value).encode()
    if "field" in document:
        # The JSON is one field of a form.
        body = urlencode({document["field"]: body}).encode()
    return Case(
        provider=path.parent.name,
        name=path.stem,
        options=document.get("options", {}),
        headers=headers,
        value=value,
        body=body,
        events=document["events"],
    )
