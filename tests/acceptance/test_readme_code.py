"""The README's way from a clone to a test that reads the code from the mail, run as printed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINES_MAX = 10


def printed_lines() -> str:
    block = re.search(
        r"## The code from the mail, in your test.*?```sh\n(.*?)```",
        (ROOT / "README.md").read_text(),
        re.DOTALL,
    )
    assert block is not None, "the README shows a test that reads a code"
    return block.group(1)


def clone(folder: Path) -> Path:
    """Make a folder with what pytest would take from a clone: its settings."""
    made = folder / "mailonce"
    made.mkdir()
    shutil.copy(ROOT / "pyproject.toml", made)
    return made


def run_lines(folder: Path, script: str, **environment: str) -> str:
    kept = {
        name: os.environ[name]
        for name in os.environ
        if not name.startswith(("MAILONCE", "PYTEST", "PYTHONPATH"))
    }
    done = subprocess.run(
        ["bash", "-euc", script],
        cwd=folder,
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_test_of_the_readme_reads_the_code(tmp_path: Path) -> None:
    lines = printed_lines()
    script = lines.replace(".venv/bin/pytest", f"{sys.executable} -m pytest -p no:cacheprovider")
    for install in (
        "python3 -m venv ../try/.venv",
        "../try/.venv/bin/pip install '.[server]' pytest",
    ):
        assert install in lines
        script = script.replace(install, "true")

    printed = run_lines(clone(tmp_path), script, PYTHONPATH=str(ROOT / "src"))

    assert "1 passed" in printed
    assert f"rootdir: {tmp_path / 'try'}\n" in printed, (
        "the clone's settings of pytest are not taken"
    )
    assert "configfile" not in printed
    assert len([line for line in printed_lines().splitlines() if line]) <= LINES_MAX


@pytest.mark.long
def test_it_does_so_in_a_fresh_venv_from_the_built_wheel(tmp_path: Path) -> None:
    pip = f"{sys.executable} -m pip --disable-pip-version-check"
    wheels = tmp_path / "wheels"
    run_lines(ROOT, f"{pip} wheel -q --no-deps -w {wheels} .")
    [wheel] = wheels.glob("mailonce-*.whl")
    lines = printed_lines()
    assert "'.[server]'" in lines
    script = lines.replace("'.[server]'", f"-q -c {ROOT / 'constraints.txt'} '{wheel}[server]'")

    script = script.replace("python3 -m venv", f"{sys.executable} -m venv")
    printed = run_lines(clone(tmp_path), script)

    assert "1 passed" in printed
