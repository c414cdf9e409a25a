"""How mailonce is installed: the version of Python, the package, the image and the unit."""

import configparser
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from mailonce.settings import Settings

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "deploy/make_venv.sh"
OLD = '#!/bin/sh\n[ "$1" = -V ] && echo "Python 3.10.12" || exit 1\n'
NEW = '#!/bin/sh\n[ "$2" = venv ] && mkdir -p "$3/bin" && cp "$0" "$3/bin/python"; exit 0\n'


def make_python(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def make_venv(folder: Path, python: Path | str) -> subprocess.CompletedProcess[str]:
    command = ["bash", str(SCRIPT), str(folder), str(python)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_python_that_is_too_old_is_named_and_nothing_is_made(tmp_path: Path) -> None:
    done = make_venv(tmp_path / "venv", make_python(tmp_path / "python", OLD))

    assert done.returncode == 1
    assert "needs Python 3.11 or later, and this is Python 3.10.12" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "venv").exists()


def test_a_python_that_is_not_there_is_said(tmp_path: Path) -> None:
    done = make_venv(tmp_path / "venv", "python9.99")

    assert done.returncode == 1
    assert "needs Python 3.11 or later, and there is no python9.99" in done.stderr


def test_a_folder_of_an_older_python_is_made_anew(tmp_path: Path) -> None:
    make_python(tmp_path / "venv/bin/python", OLD)
    (tmp_path / "venv/left.over").touch()

    done = make_venv(tmp_path / "venv", make_python(tmp_path / "python", NEW))

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "venv/bin/python").read_text() == NEW
    assert not (tmp_path / "venv/left.over").exists()


def variables(text: str) -> set[str]:
    return {name.lower() for name in re.findall(r"\bMAILONCE_([A-Z_]+)\s*[=:]", text)}


@pytest.mark.parametrize("name", ["Dockerfile", "deploy/compose.yml", "deploy/mailonce.service"])
def test_every_variable_is_a_setting(name: str) -> None:
    found = variables((ROOT / name).read_text())

    assert found
    assert found <= set(Settings.model_fields)


def test_the_image_has_what_the_package_needs() -> None:
    text = (ROOT / "Dockerfile").read_text()
    sent = set((ROOT / ".dockerignore").read_text().split())
    copied = {
        source
        for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE)
        for source in line.split()[:-1]
    }

    assert copied == {"pyproject.toml", "constraints.txt", "docs/package.md", "LICENSE", "src"}
    assert all((ROOT / one).exists() and f"!{one}" in sent for one in copied)
    assert "USER mailonce" in text, "it does not run as root"
    for port in ("8100", "2525"):
        assert port in text
        assert f":{port}:{port}" in (ROOT / "deploy/compose.yml").read_text()


def test_compose_can_read_its_file() -> None:
    command = ["docker", "compose", "-f", str(ROOT / "deploy/compose.yml"), "config", "--quiet"]
    if shutil.which("docker") is None or _run(["docker", "compose", "version"]).returncode:
        pytest.skip("docker compose is not installed")
    names = ("MAILONCE_ADMIN_KEY", "MAILONCE_MASTER_KEY", "POSTGRES_PASSWORD")
    given = {**os.environ, **dict.fromkeys(names, "a-word-for-tests")}

    assert _run(command, given).returncode == 0
    assert "write it into .env" in _run(command, {"PATH": os.environ["PATH"]}).stderr


def test_systemd_can_read_its_unit(tmp_path: Path) -> None:
    text = (ROOT / "deploy/mailonce.service").read_text()
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(text)
    start = unit["Service"]["ExecStart"].split()

    assert start[1:3] == ["serve", "--config"]
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    copy = tmp_path / "mailonce.service"
    copy.write_text(text.replace(start[0], sys.executable))
    done = _run(["systemd-analyze", "verify", str(copy)])
    assert "mailonce.service" not in done.stderr, done.stderr


@pytest.mark.long
def test_the_package_holds_what_it_needs_to_run(tmp_path: Path) -> None:
    for kind in ("wheel", "sdist"):
        code = f"from setuptools.build_meta import build_{kind} as b; print(b({str(tmp_path)!r}))"
        venv = tmp_path / "venv"
        if not venv.exists():
            subprocess.run([sys.executable, "-m", "venv", venv], check=True)
            tools = ["setuptools>=77", "twine"]
            subprocess.run([venv / "bin/pip", "install", "-q", *tools], check=True)
        subprocess.run([venv / "bin/python", "-c", code], cwd=ROOT, check=True)
    wheel = zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist()
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        sdist = archive.getnames()

    for needed in ("py.typed", "edge/http/static/home.html", "gate/sqlite.sql"):
        assert f"mailonce/{needed}" in wheel, needed
        assert any(one.endswith(f"src/mailonce/{needed}") for one in sdist), needed
    assert any("store/migrations/versions/m0001" in one for one in wheel)
    for page in ("docs/operate.md", "examples/gate_flask/app.py", "CHANGELOG.md"):
        assert any(one.endswith(f"/{page}") for one in sdist), page
    packages = [*tmp_path.glob("*.whl"), *tmp_path.glob("*.tar.gz")]
    done = _run([str(venv / "bin/twine"), "check", "--strict", *map(str, packages)])
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("PASSED") == 2


def _run(command: list[str], env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)
