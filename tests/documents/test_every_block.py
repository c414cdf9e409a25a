"""No block of the documents is left out: it is data, it is run by a test, or a reason is given."""

import re
from pathlib import Path

import pytest

from tests.documents.blocks import Block, all_blocks, blocks_of, find_block
from tests.documents.where_run import ELSEWHERE, NOT_RUN, ON_A_SERVER, ON_THEIR_OWN

TESTS = Path(__file__).parents[1]
# Each has a test in test_data_blocks.py, for all pages.
DATA = {"http", "json", "nginx", "toml"}
CODE = {"", "console", "python", "sh", "text"}
NAME = re.compile(r'"([\w./-]+\.md \| [^"\n]+ \| \d+)"')
# The generated pages of the providers say the same with another name; one of them is run.
MODEL = "sendgrid"


def names_in_tests() -> set[str]:
    files = Path(__file__).parent.glob("test_*.py")
    return {name for file in files for name in NAME.findall(file.read_text())}


def is_like_the_model(block: Block) -> bool:
    found = re.fullmatch(r"providers/(\w+)\.md \| Try it \| 1", block.name)
    if found is None:
        return False
    model = find_block(f"providers/{MODEL}.md | Try it | 1")
    return block.text == model.text.replace(MODEL, found[1])


def test_every_block_is_run_or_has_a_reason() -> None:
    run = names_in_tests() | {*ON_A_SERVER, *(one for names in ON_THEIR_OWN for one in names)}
    known = run | ELSEWHERE.keys() | NOT_RUN.keys()

    left_out = [
        f"{block.name} (line {block.line})"
        for block in all_blocks()
        if block.language not in DATA and block.name not in known and not is_like_the_model(block)
    ]

    assert left_out == [], "say in where_run.py how it is run, or why it is not"


def test_every_language_is_known() -> None:
    assert {block.language for block in all_blocks()} <= DATA | CODE


def test_no_name_is_left_of_a_block_that_is_gone() -> None:
    listed = names_in_tests() | {*ON_A_SERVER, *(one for names in ON_THEIR_OWN for one in names)}
    listed |= ELSEWHERE.keys() | NOT_RUN.keys()

    assert listed - {block.name for block in all_blocks()} == set()


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_test_of_another_folder_reads_the_page(name: str) -> None:
    text = (TESTS / ELSEWHERE[name]).read_text()
    page = name.partition(" | ")[0]

    assert page in text or page == "extend.md"


def test_nothing_of_what_runs_is_also_excused() -> None:
    run = names_in_tests() | {*ON_A_SERVER}

    assert not run & NOT_RUN.keys()
    assert all(len(reason) > 8 for reason in NOT_RUN.values())


def test_blocks_are_found_below_their_headings() -> None:
    page = "# One\n```sh\na\n```\n## Two\n```\nb\n```\n```json\n{}\n```\n"

    found = [(one.heading, one.number, one.language) for one in blocks_of(page, "p.md")]

    assert found == [("One", 1, "sh"), ("Two", 1, ""), ("Two", 2, "json")]
