"""ARCHITECTURE.md: what it names is there, and nothing that matters is left out."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "ARCHITECTURE.md").read_text()
PACKAGE = ROOT / "src" / "mailonce"


def test_every_file_that_it_names_is_there() -> None:
    invariants = TEXT.partition("## Invariants")[2].partition("\n## ")[0]
    paths = set(re.findall(r"`((?:tests|docs|src)/[\w./-]*)`", TEXT))
    paths |= {f"tests/acceptance/{name}" for name in re.findall(r"`(test_\w+\.py)`", invariants)}
    paths |= {
        f"src/mailonce/{path}"
        for path in re.findall(r"`((?!tests/|docs/)(?:[a-z]\w*/)+\w+\.py)`", TEXT)
    }

    assert len(paths) > 20
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


def test_every_folder_has_its_row() -> None:
    rows = re.findall(r"^\| `(\w+)/` \|", TEXT, re.MULTILINE)

    assert sorted(rows) == sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))


def test_every_invariant_is_named_once() -> None:
    invariants = TEXT.partition("## Invariants")[2].partition("\n## ")[0]

    assert re.findall(r"^(\d+)\.", invariants, re.MULTILINE) == [str(n) for n in range(1, 12)]
