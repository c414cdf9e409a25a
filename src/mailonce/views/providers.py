"""Providers as users see them, generated from their records."""

from typing_extensions import TypedDict

from mailonce import providers
from mailonce.core.provider import Provider


class CodesJson(TypedDict):
    """Which HTTP status makes this provider stop, or try again later."""

    done: int
    refused: int
    later: int
    full: int


class ProviderJson(TypedDict):
    """What mailonce knows of a provider.

    `signs` names the settings that its signature needs; empty: it signs nothing. `types` is
    empty where the source's own options decide.
    """

    name: str
    title: str
    docs: str
    signs: list[str]
    signs_body: bool
    freshness_s: int | None
    retry_horizon_s: int
    types: list[str]
    codes: CodesJson


def list_providers() -> list[ProviderJson]:
    """List every provider by name."""
    found = (providers.find(name) for name in providers.names())
    return [provider_json(one) for one in found if one is not None]


def provider_json(provider: Provider) -> ProviderJson:
    """Write a provider's record as users see it."""
    codes = provider.codes
    return {
        "name": provider.name,
        "title": provider.title,
        "docs": provider.docs,
        "signs": list(provider.needs),
        "signs_body": bool(provider.needs) and provider.signs_body,
        "freshness_s": provider.freshness_s,
        "retry_horizon_s": provider.retry_horizon_s,
        "types": sorted(provider.types),
        "codes": {
            "done": codes.done,
            "refused": codes.refused,
            "later": codes.later,
            "full": codes.full,
        },
    }
