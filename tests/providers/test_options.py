"""The options of a source: each that a provider reads is known, and no other is taken."""

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from mailonce import providers
from mailonce.core.sends.sender import Sender
from mailonce.errors import ConfigError
from mailonce.manage.senders import check_sender
from mailonce.manage.sources import check_source
from tests.factories import make_source
from tests.providers.cases import all_cases, provider_of, source_of

FOLDER = Path(providers.__file__).parent


@pytest.mark.parametrize("name", providers.BUILTIN)
def test_an_unknown_option_is_refused_and_the_known_ones_are_named(name: str) -> None:
    known = provider_of(name).known_options
    source = source_of(name, unproven=True, options={"zzz": 1})

    with pytest.raises(ConfigError) as refused:
        check_source(source, window_days=35)

    assert "there is no option 'zzz'" in str(refused.value)
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


def test_a_misspelt_provider_is_named_with_its_source_and_the_one_that_was_meant() -> None:
    with pytest.raises(ConfigError) as near:
        check_source(make_source(name="shop", provider="sengrid"), window_days=35)
    with pytest.raises(ConfigError) as far:
        check_source(make_source(name="shop", provider="pigeon"), window_days=35)

    place = "source 'shop': `provider`"
    assert str(near.value) == f"{place} 'sengrid' is not known; did you mean sendgrid?"
    assert str(far.value).startswith(f"{place} 'pigeon' is not known; use one of brevo, ")


def test_a_misspelt_option_is_named_with_the_one_that_was_meant() -> None:
    source = source_of("mailwebhook", unproven=True, options={"other_contents": "x"})

    with pytest.raises(ConfigError, match=r"'other_contents'; did you mean other_content\?$"):
        check_source(source, window_days=35)


def test_a_misspelt_provider_of_a_sender_is_named_with_it() -> None:
    sender = Sender(id="snr_out", workspace="default", name="out", provider="sengrid")

    with pytest.raises(ConfigError) as refused:
        check_sender(sender)

    assert str(refused.value) == (
        "sender 'out': `provider` 'sengrid' cannot send; did you mean sendgrid?"
    )
