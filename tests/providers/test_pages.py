"""The providers' pages: each tells what a stranger needs, and what it tells is accepted."""

import re
import tomllib
from pathlib import Path

import pytest

from mailonce import providers
from mailonce.settings import SourceSettings
from tests.providers.cases import provider_of

PAGES = Path(__file__).parents[2] / "docs" / "providers"
PARTS = (
    "Set up", "What is proven", "Retries, and what is lost when", "How copies are known", "Events",
    "Options", "Example", "Try it",
)  # fmt: skip


@pytest.mark.parametrize("name", providers.BUILTIN)
def test_a_page_has_all_parts_and_every_option(name: str) -> None:
    text = (PAGES / f"{name}.md").read_text()

    parts = re.findall(r"^## (.*)$", text, re.MULTILINE)

    assert [part for part in PARTS if part not in parts] == []
    assert [one for one in provider_of(name).known_options if f"| `{one}` |" not in text] == []


@pytest.mark.parametrize("name", providers.BUILTIN)
def test_the_settings_to_paste_are_settings_and_name_all_that_is_needed(name: str) -> None:
    block = re.search(r"```toml\n(.*?)```", (PAGES / f"{name}.md").read_text(), re.DOTALL)
    assert block is not None
    given = tomllib.loads(block[1])["sources"]["main"]

    settings = SourceSettings(**given)

    wanted = {"secrets": "secret", "public_keys": "public_key"}
    needs = [wanted.get(need, need) for need in provider_of(name).needs] or ["basic"]
    assert [need for need in needs if not getattr(settings, need)] == []
    assert set(settings.options) <= provider_of(name).known_options.keys()


def test_no_page_is_left_of_a_provider_that_is_gone() -> None:
    assert {page.stem for page in PAGES.iterdir()} == set(providers.BUILTIN)
