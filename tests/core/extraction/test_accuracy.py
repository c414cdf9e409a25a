"""docs/extraction.md says how much is found, and how much of it is right: it says the truth."""

import re
from pathlib import Path

import pytest

from tests.core.extraction.vectors import (
    CODE_FILES,
    LINK_FILES,
    Score,
    code_in,
    link_in,
    load,
    result_of,
    score,
)

PAGE = (Path(__file__).parents[3] / "docs" / "extraction.md").read_text()
SETS = ("first", "second", "third", "fourth", "fifth")


def codes_of(name: str) -> Score:
    vectors = [one for file in CODE_FILES if file.startswith(name) for one in load("codes", file)]
    return score([(one["code"], result_of(code_in(one))) for one in vectors])


def links_of(name: str) -> Score:
    vectors = [one for file in LINK_FILES if file.startswith(name) for one in load("links", file)]
    return score([(one["link"], result_of(link_in(one))) for one in vectors])


def row(kind: str, name: str, result: Score) -> str:
    """Write the row of a set, without what its first run found."""
    return (
        f"| {kind} | {name} | {result.mails} | {result.with_value} | {result.right} "
        f"| {result.false} | {result.precision:.1%} | {result.recall:.1%} |"
    )


def test_every_file_belongs_to_a_set_or_made_the_rules() -> None:
    names = {file.partition("-")[0] for file in (*CODE_FILES, *LINK_FILES)}

    assert names == {*SETS, "known"}


def test_there_are_enough_mails_of_our_own() -> None:
    assert sum(codes_of(name).mails + links_of(name).mails for name in SETS) >= 200


@pytest.mark.parametrize("name", SETS)
def test_the_page_says_what_is_found(name: str) -> None:
    rows = re.sub(r" +", " ", PAGE)

    assert row("codes", name, codes_of(name)) in rows
    assert row("links", name, links_of(name)) in rows


def test_the_example_says_what_it_gives() -> None:
    example = PAGE.partition("```python\n")[2].partition("```")[0]
    setup, _, shown = example.partition("mail = ")
    lines = [line.partition("#") for line in f"mail = {shown}".splitlines()]
    names: dict[str, object] = {}

    exec(setup + lines[0][0], names)
    results = {code.strip(): word.strip(' "') for code, _, word in lines[1:] if word}

    assert len(results) == 3
    for code, word in results.items():
        assert str(eval(code, names)) == word, code
