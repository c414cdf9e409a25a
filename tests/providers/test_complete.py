"""A provider is one file, one line, one golden folder, one docs line: which of them is missing?"""

from pathlib import Path

import pytest

from mailonce import providers
from tests.providers.cases import all_cases, each_provider

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "golden"
# Folders beside the providers' files, with what some of them also do.
SIDES = {"inbound", "sending"}
PAGE = (ROOT / "docs" / "providers.md").read_text()


@pytest.mark.parametrize("name", providers.BUILTIN)
def test_a_provider_brings_everything_it_needs(name: str) -> None:
    provider = providers.find(name)

    missing = {
        "a PROVIDER record of that name": provider is None or provider.name != name,
        f"golden cases in tests/providers/golden/{name}": not list(GOLDEN.glob(f"{name}/*.json")),
        "a line in docs/providers.md; run `make docs`": f"| `{name}` |" not in PAGE,
    }

    assert [what for what, lacks in missing.items() if lacks] == []


def test_no_golden_folder_or_file_is_left_of_a_provider_that_is_gone() -> None:
    folders = {folder.name for folder in GOLDEN.iterdir()}
    files = {
        path.stem for path in (ROOT / "src/mailonce/providers").iterdir() if path.stem[0] != "_"
    }

    assert folders == set(providers.BUILTIN)
    assert files - SIDES == {path.split(".")[2] for path in providers.BUILTIN.values()}


def test_no_golden_file_is_left_out_of_the_tests() -> None:
    files = {path for path in GOLDEN.rglob("*") if path.is_file()}
    [groups] = each_provider(all_cases()).args[1:]

    tested = {GOLDEN / case.provider / f"{case.name}.json" for group in groups for case in group}

    assert tested == files
    assert sum(map(len, groups)) == len(files) > 0


@pytest.mark.parametrize("name", providers.BUILTIN)
def test_every_type_that_a_record_claims_has_a_golden_case(name: str) -> None:
    import json

    provider = providers.find(name)
    assert provider is not None
    types = {
        event["type"]
        for path in GOLDEN.glob(f"{name}/*.json")
        for event in json.loads(path.read_text())["events"]
    }

    assert {str(type_) for type_ in provider.types} - types == set()
