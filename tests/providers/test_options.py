"""The options of a source: each that a provider reads is known, and no other is taken."""

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from mailonce import providers
from mailonce.errors import ConfigError
from mailonce.manage.sources import check_source
from tests.providers.cases import all_cases, provider_of, source_of

FOLDER = Path(providers.__file__).parent


@pytest.mark.parametrize("name", providers.BUILTIN)
def test_an_unknown_option_is_refused_and_the_known_ones_are_named(name: str) -> None:
    known = provider_of(name).known_options
    source = source_of(name, unproven=True, options={"typo": 1})

    with pytest.raises(ConfigError) as refused:
        check_source(source, window_days=35)

    assert "there is no option 'typo'" in str(refused.value)
    assert str(refused.value).endswith(f"are: {', '.join(sorted(known)) or 'none'}")


def test_every_option_of_a_golden_case_is_known() -> None:
    unknown = {
        (case.provider, option)
        for case in all_cases()
        for option in case.options.keys() - provider_of(case.provider).known_options.keys()
    }

    assert unknown == set()


@pytest.mark.parametrize("name", providers.BUILTIN)
def test_every_option_that_a_provider_reads_by_name_is_known(name: str) -> None:
    module = import_module(providers.BUILTIN[name])
    assert module.__file__ is not None
    files = [Path(module.__file__), FOLDER / "inbound" / f"{name}.py"]

    read = {option for file in files if file.exists() for option in _options_read(file)}

    assert read <= provider_of(name).known_options.keys()


def test_the_search_for_options_finds_some() -> None:
    assert set(_options_read(FOLDER / "mandrill.py")) == {"url", "blocked_words"}


def _options_read(file: Path) -> Iterator[str]:
    """Give the names in `….options.get("name")`."""
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="get", value=ast.Attribute(attr="options")),
                args=[ast.Constant(value=str(option)), *_],
            ):
                yield option
