"""The shape of the tree: sizes, words, and documents that say what is true."""

import ast
import gc
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
CORE = ROOT / "src/mailonce/core"
MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
# Words that the glossary retires, with ours.
RETIRED = {
    "payload": "body",
    "tenant": "workspace",
    "vendor": "provider",
    "dedupe": "claim",
    "utils": "a noun or a verb",
    "helpers": "a noun or a verb",
}
# Words that do not say what a thing is: `response`, `query`, `rows`, `match`, `demands` … do.
PARTICIPLES = frozenset({"asked", "buried", "came", "found", "heard", "hungry", "said", "told"})
# A column of the database.
COLUMNS = frozenset({"said_ms"})
# Outcomes, which are matched and say what happened; a thing has a noun.
OUTCOMES = frozenset({"Accepted", "Parsed", "Recorded", "Refused", "Unrecorded", "Verified"})
# Users of the gate's outbox import it.
PUBLIC_PARTICIPLES = frozenset({"Owed"})
# Records, and rules that are tested through the providers or the ledger: nothing is added here.
TESTED_ELSEWHERE = {
    "configured_hmac": "providers/test_hmac.py",
    "effects": "core/test_decide.py",
    "entry": "core/test_decide.py",
    "job": "core/test_response_outcome.py",
    "known_records": "edge/test_doctor.py",
    "mapping": "providers/test_standardwebhooks.py",
    "provider": "providers/test_contract.py",
    "sns": "providers/test_ses.py",
    "states": "core/test_lifecycle.py",
    "standard_webhooks": "providers/test_standardwebhooks.py",
    "timed_signature": "providers/test_mailwebhook.py",
}
NAMING = frozenset(
    {ast.Name, ast.Attribute, ast.arg, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef}
    | {ast.MatchAs, ast.ExceptHandler}
)
# Django looks for `Migration` in every file of its migrations.
SHARED_NAMES = frozenset({"Migration"})


@cache
def _parsed(path: Path) -> ast.Module:
    """Parse without collecting garbage: Python 3.11 fails where a finalizer runs meanwhile."""
    gc.disable()
    try:
        return ast.parse(path.read_text())
    finally:
        gc.enable()


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """List what gives a name in a module: the tests look through it more than once."""
    return tuple(
        node
        for node in ast.walk(_parsed(path))
        if type(node) in NAMING and not isinstance(getattr(node, "ctx", None), ast.Load)
    )


def place(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_sources_are_there() -> None:
    assert len(SOURCES) > 100


def test_a_module_fits_in_one_sitting() -> None:
    long = [place(path) for path in SOURCES if path.read_text().count("\n") > MODULE_LINES_MAX]

    assert long == []


def test_a_function_fits_on_one_screen() -> None:
    long = [
        (place(path), node.name)
        for path in SOURCES
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= FUNCTION_LINES_MAX
    ]

    assert long == []


def test_a_module_says_in_one_line_what_it_is() -> None:
    assert [place(path) for path in SOURCES if not ast.get_docstring(_parsed(path))] == []


def test_a_name_uses_the_glossarys_word() -> None:
    retired = [
        (place(path), one, RETIRED[word])
        for path in SOURCES
        for one in {path.stem, *_given_names(path)}
        for word in re.split(r"[_\W]+", one.lower())
        if word in RETIRED
    ]

    assert retired == []


def _given_names(path: Path) -> Iterator[str]:
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg


def test_no_value_or_function_is_named_by_a_participle() -> None:
    bad = [
        (place(path), one)
        for path in SOURCES
        for one in set(_bound_names(path)) - COLUMNS
        if one.strip("_").split("_")[0] in PARTICIPLES
    ]

    assert bad == []


def test_no_class_is_named_by_a_bare_participle() -> None:
    names = {
        node.name for path in SOURCES for node in nodes(path) if isinstance(node, ast.ClassDef)
    }

    participles = {
        name for name in names if re.fullmatch(r"_?(?!Speed)[A-Z][a-z]+ed|_?(Known|Shown)", name)
    }

    assert participles - OUTCOMES - PUBLIC_PARTICIPLES == set(), "a thing has a noun"


def _bound_names(path: Path) -> Iterator[str]:
    for node in nodes(path):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.MatchAs(name=str(name)) | ast.ExceptHandler(name=str(name)):
                yield name
            case _:
                pass


def test_each_rule_of_core_has_a_test_of_its_own(subtests: pytest.Subtests) -> None:
    for path in sorted(CORE.rglob("*.py")):
        if path.stem == "__init__":
            continue
        with subtests.test(str(path.relative_to(CORE))):
            name = f"test_{path.stem}.py"
            tests = [one for one in (ROOT / "tests/core").rglob(name) if one.is_file()]
            elsewhere = TESTED_ELSEWHERE.get(path.stem)

            if elsewhere is None:
                assert tests, f"write tests/core/{name}: no database is needed to test core"
            else:
                assert (ROOT / "tests" / elsewhere).exists()
                assert not tests, f"take {path.stem!r} out of TESTED_ELSEWHERE"


def test_no_exception_is_left_of_a_core_module_that_is_gone() -> None:
    assert set(TESTED_ELSEWHERE) <= {path.stem for path in CORE.rglob("*.py")}


def test_a_public_class_has_a_name_of_its_own() -> None:
    places: dict[str, list[str]] = {}
    for path in SOURCES:
        for node in _parsed(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(path.relative_to(ROOT / "src")))

    twice = {name: found for name, found in places.items() if len(found) > 1}

    assert {name: twice[name] for name in twice.keys() - SHARED_NAMES} == {}


def test_architecture_stays_short() -> None:
    assert (ROOT / "ARCHITECTURE.md").read_text().count("\n") <= 200


def test_no_registry_or_machine_path_is_named() -> None:
    for path in (ROOT / "constraints.txt", ROOT / "pyproject.toml", ROOT / "Makefile"):
        text = path.read_text()
        assert "://" not in text.replace("http://127.0.0.1", ""), path
    for line in (ROOT / "constraints.txt").read_text().split():
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line), line


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_every_file_that_a_document_names_is_there(name: str) -> None:
    text = (ROOT / name).read_text()
    links = re.findall(r"\]\((?!http|#)([^)#]+)", text)

    missing = [link for link in links if not (ROOT / link).exists()]

    assert missing == []
