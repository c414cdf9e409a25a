"""Recipes are remembered: a key that changes unseen would let old events in again."""

import json
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

import pytest

from mailonce import providers
from mailonce.core.events.key import WHOLE, Recipe
from mailonce.core.reading import mapping
from mailonce.providers import sesmetric
from tests.providers.cases import cases_of, parse, provider_of

RECORD = Path(__file__).parent / "recipes.json"


def test_no_recipe_changes_without_a_new_version() -> None:
    recorded = json.loads(RECORD.read_text())

    for recipe in _recipes():
        fields = {"identity": list(recipe.identity), "content": list(recipe.content)}
        assert recorded.get(recipe.name, {}).get(str(recipe.version)) == fields, (
            f"the recipe {recipe.name!r} is not what {RECORD.name} remembers as version "
            f"{recipe.version}: raise its version, keep the old one as `previous`, and add the "
            "new version to the record beside the old"
        )


def test_the_newest_version_on_record_is_the_one_in_use() -> None:
    recorded = json.loads(RECORD.read_text())

    in_use = {recipe.name: recipe.version for recipe in _recipes(previous=False)}

    assert in_use == {name: max(map(int, versions)) for name, versions in recorded.items()}


def test_a_later_version_names_the_one_before() -> None:
    for recipe in _recipes():
        before = recipe.previous
        assert (before.version if before else 0) == recipe.version - 1, recipe.name
        assert before is None or before.name == recipe.name


@pytest.mark.parametrize("name", providers.BUILTIN)
def test_a_provider_names_every_recipe_that_it_uses(name: str) -> None:
    """Its page says by what copies are known; an operator relies on that."""
    used = {
        event.identity.recipe
        for case in cases_of(name)
        for event in parse(name, case.body, case.headers, **case.options).events
    }

    assert used - {WHOLE} <= set(provider_of(name).recipes)
    assert provider_of(name).recipes


@pytest.mark.parametrize("name", providers.BUILTIN)
def test_an_event_id_is_told_where_the_provider_has_one(name: str) -> None:
    described = {
        event.provider_event_id is not None
        for case in cases_of(name)
        for event in parse(name, case.body, case.headers, **case.options).events
    }

    assert (True in described) == (provider_of(name).event_id is not None)


def test_no_two_recipes_share_a_name() -> None:
    recipes = _recipes(previous=False)

    assert len({recipe.name for recipe in recipes}) == len(recipes)


def _recipes(*, previous: bool = True) -> list[Recipe]:
    """Find every recipe that a provider's module uses, and if asked those before them."""
    recipes: set[Recipe] = set()
    for module in _modules():
        recipes |= {value for value in vars(module).values() if isinstance(value, Recipe)}
    named_as_previous = {one.previous for one in recipes if one.previous is not None}
    newest = recipes - named_as_previous
    if not previous:
        return sorted(newest, key=lambda one: one.name)
    chain: list[Recipe] = []
    for one in sorted(newest, key=lambda one: one.name):
        current: Recipe | None = one
        while current is not None:
            chain.append(current)
            current = current.previous
    return chain


def _modules() -> list[ModuleType]:
    """Give the providers' modules, those within a provider's folder, and the shared mapping."""
    modules = [mapping]
    for path in providers.BUILTIN.values():
        module = import_module(path)
        parts = iter_modules(getattr(module, "__path__", ()), f"{path}.")
        modules += [module, *(import_module(part.name) for part in parts)]
    return modules


def test_a_recipe_that_changes_without_a_version_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    changed = replace(sesmetric.EVENT, identity=("id", "timestamp"))

    monkeypatch.setattr(sesmetric, "EVENT", changed)

    with pytest.raises(AssertionError, match="raise its version"):
        test_no_recipe_changes_without_a_new_version()
