"""Finding providers: ours by name, others by what is installed."""

import subprocess
import sys
from pathlib import Path

import pytest

from mailonce import providers


@pytest.mark.parametrize("name", sorted(providers.BUILTIN))
def test_each_builtin_provider_is_found_under_its_own_name(name: str) -> None:
    provider = providers.find(name)

    assert provider is not None
    assert provider.name == name
    assert name in providers.names()


def test_an_unknown_provider_is_none() -> None:
    assert providers.find("carrier-pigeon") is None


def test_an_installed_package_may_add_a_provider(tmp_path: Path) -> None:
    """In a process of its own: what is installed is looked up once."""
    info = tmp_path / "pigeon-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pigeon\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[mailonce.providers]\npigeon = pigeon:PROVIDER\nbroken = pigeon:nothing\n"
        "ses = pigeon:PROVIDER\n"
    )
    (tmp_path / "pigeon.py").write_text(
        "from mailonce.core.arrivals.provider import Parsed, Provider\n"
        "PROVIDER = Provider(name='pigeon', title='Pigeon', docs='', parse=lambda a, s: Parsed())\n"
    )
    program = (
        "from mailonce import providers\n"
        "from mailonce.errors import ConfigError\n"
        "assert providers.find('pigeon').title == 'Pigeon'\n"
        "assert providers.find('ses').title == 'Amazon SES'\n"
        "assert 'pigeon' in providers.names()\n"
        "try:\n    providers.find('broken')\n"
        "except ConfigError as error:\n    print(error)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": f"{tmp_path}:{Path(providers.__file__).parents[2]}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "'broken' cannot be loaded from pigeon:nothing" in done.stdout
