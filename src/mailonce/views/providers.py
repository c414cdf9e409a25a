"""Providers as users see them, generated from their records."""

from typing_extensions import TypedDict

from mailonce import providers
from mailonce.core.arrivals.provider import InboundHook, Provider
from mailonce.core.events.key import Recipe
from mailonce.core.reading import mapping


class CodesJson(TypedDict):
    """Which HTTP status makes this provider stop, or try again later.

    `refused_is_final`: what was refused with a 4xx is never sent again.
    """

    done: int
    refused: int
    later: int
    full: int
    refused_is_final: bool


class RecipeJson(TypedDict):
    """The fields of a provider by which copies of some of its events are recognised.

    Events that differ in one of `known_by` are two; copies are equal in `must_equal`, else it is
    a conflict; all other fields may differ.
    """

    name: str
    version: int
    known_by: list[str]
    must_equal: list[str]


class InboundJson(TypedDict):
    """How a provider hands over mail.

    `content` lists the forms, the best first: mime (the mail's own bytes), fields (what the
    provider read from it), fetch (where it lies). `envelope` is '' where there is none.
    `delivery_id` is the provider's name for an id that is equal over retries. `options` are
    yes-or-no options of a source, with what each allows.
    """

    docs: str
    content: list[str]
    envelope: str
    signs_mail: bool
    delivery_id: str | None
    retry_horizon_s: int | None
    differences: list[str]
    options: dict[str, str]


class ProviderJson(TypedDict):
    """What mailonce knows of a provider.

    `signs` names the settings that its signature needs; empty: it signs nothing. `types` is
    empty where the source's own options decide. `event_id` is the provider's name for its own id
    of an event, which `provider_event_id` tells. `inbound` is null where it hands over no mail.
    `options` are all that a source of it may have, with what each says; others are refused.
    """

    name: str
    title: str
    docs: str
    signs: list[str]
    signs_body: bool
    freshness_s: int | None
    retry_horizon_s: int
    types: list[str]
    event_id: str | None
    recipes: list[RecipeJson]
    codes: CodesJson
    inbound: InboundJson | None
    options: dict[str, str]


def list_providers() -> list[ProviderJson]:
    records = (providers.find(name) for name in providers.names())
    return [provider_json(record) for record in records if record is not None]


def recipe_json(recipe: Recipe) -> RecipeJson:
    # What an operator may list has a default.
    identity = mapping.KEY if recipe is mapping.COMPOSITE else recipe.identity
    return {
        "name": recipe.name,
        "version": recipe.version,
        "known_by": [name.lstrip("@") for name in identity],
        "must_equal": [name.lstrip("@") for name in recipe.content],
    }


def provider_json(provider: Provider) -> ProviderJson:
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
        "event_id": provider.event_id,
        "recipes": [recipe_json(recipe) for recipe in provider.recipes],
        "codes": {
            "done": codes.done,
            "refused": codes.refused,
            "later": codes.later,
            "full": codes.full,
            "refused_is_final": codes.refused_is_final,
        },
        "inbound": None if provider.inbound is None else inbound_json(provider.inbound),
        "options": dict(provider.known_options),
    }


def inbound_json(hook: InboundHook) -> InboundJson:
    return {
        "docs": hook.docs,
        "content": [str(one) for one in hook.content],
        "envelope": hook.envelope,
        "signs_mail": hook.signs_mail,
        "delivery_id": hook.delivery_id,
        "retry_horizon_s": hook.retry_horizon_s,
        "differences": list(hook.differences),
        "options": dict(hook.flags),
    }
