"""Commands, options and settings that a sentence names are there."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic import BaseModel

from mailonce.edge.cli.main import app
from mailonce.settings import Settings

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src/mailonce").rglob("*.py"))
# What a sentence fills in.
BLANK = "\0"
COMMAND = re.compile(r"`mailonce ([a-z][^`]*)`|\[bold\]mailonce ([a-z][^\[]*)\[")
TABLES = {
    name: table
    for name, field in Settings.model_fields.items()
    for table in [field.annotation]
    if isinstance(table, type) and issubclass(table, BaseModel)
}
SETTING = re.compile(rf"(?<![\w/.])\[?({'|'.join(TABLES)})(?:\.|\] )([a-z_]+)\b(?![\w(/])")
# Files and hosts look the same.
NO_SETTINGS = {"py", "md", "toml", "example", "com"}
APP = typer.main.get_command(app)


@cache
def sentences() -> tuple[tuple[str, str], ...]:
    """Give each text that names a command or a setting, with its file, and each page."""
    return tuple(one for one in _texts() if "mailonce" in one[1] or SETTING.search(one[1]))


def _texts() -> Iterator[tuple[str, str]]:
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [
                    one.value if isinstance(one, ast.Constant) else BLANK for one in node.values
                ]
                yield path.name, "".join(map(str, parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield path.name, node.value
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        yield page.name, page.read_text()


def command_fault(text: str) -> str | None:
    """Say which word of a command line is none; words behind a blank may be anything."""
    command: Any = APP
    words = text.split()
    while words and hasattr(command, "commands") and BLANK not in words[0]:
        if words[0] not in command.commands:
            # A group that lists by itself takes options.
            return None if words[0].startswith(("-", "…")) else f"no command {words[0]}"
        command = command.commands[words.pop(0)]
    if hasattr(command, "commands"):
        return None
    known = {one for param in command.params for one in (*param.opts, *param.secondary_opts)}
    named = {re.split(r"[=.,;:)|\]]", word)[0] for word in words if word.startswith("--")}
    unknown = {one for one in named - known - {"--", "--help"} if BLANK not in one}
    return f"no option {min(unknown)}" if unknown else None


def test_every_command_that_a_sentence_names_is_there() -> None:
    found = [
        (place, one, command_fault(one))
        for place, text in sentences()
        for one in (a or b for a, b in COMMAND.findall(text))
    ]

    assert len(found) > 300
    assert [one for one in found if one[2] is not None and "[^" not in one[1]] == []


def test_every_setting_that_a_sentence_names_is_there() -> None:
    found = [
        (place, table, name)
        for place, text in sentences()
        for table, name in SETTING.findall(text)
        if name not in NO_SETTINGS
    ]

    assert len(found) > 50
    assert [one for one in found if one[2] not in TABLES[one[1]].model_fields] == []


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("domain add x.example", "no command add"),
        ("redeliver --rout crm", "no option --rout"),
        (f"refusals --source {BLANK} --workspace {BLANK}", None),
        (f"{BLANK} list", None),
    ],
)
def test_a_command_that_is_not_there_is_seen(line: str, fault: str | None) -> None:
    assert command_fault(line) == fault
