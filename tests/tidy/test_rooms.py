"""Every folder says its rule, and what it may import; what it says is true."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "src"
PACKAGES = sorted(path.parent for path in (ROOT / "mailonce").glob("*/**/__init__.py"))


def imports_of(package: Path) -> Iterator[str]:
    """Give what the modules of a folder import of ours, from outside of it, by its whole name."""
    own = ".".join(package.relative_to(ROOT).parts)
    for path in package.rglob("*.py"):
        for name in _names_imported(path):
            if name.startswith("mailonce.") and not f"{name}.".startswith(f"{own}."):
                yield name.removeprefix("mailonce.")


@cache
def _names_imported(path: Path) -> list[str]:
    """List what a module imports; folders above it ask again, so it is parsed once."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    return names


def test_every_folder_says_its_rule_and_its_imports(subtests: pytest.Subtests) -> None:
    assert len(PACKAGES) > 30
    for package in PACKAGES:
        name = ".".join(package.relative_to(ROOT).parts)
        with subtests.test(name):
            words = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
            rule, imports = words.partition("\nRule: ")[2].partition("\nImports: ")[::2]

            assert rule, f"say the rule of {name} in the docstring of its __init__: 'Rule: …'"
            assert imports, f"say what {name} may import: 'Imports: …'"
            named = re.findall(r"`([\w.]+)`", imports)
            strange = {
                found
                for found in imports_of(package)
                if not any(f"{found}.".startswith(f"{one}.") for one in named)
                # What the package itself offers, such as its version, stands above all folders.
                and (ROOT / "mailonce" / found.split(".")[0]).with_suffix(".py").exists()
                | (ROOT / "mailonce" / found.split(".")[0]).is_dir()
            }
            assert strange == set(), f"{name} imports more than it says"
