"""What `make serve` starts."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def commands_of(*arguments: str, port: str | None = None) -> str:
    """Give the commands that make would run."""
    env = {"PATH": "/usr/bin:/bin"} | ({} if port is None else {"PORT": port})
    done = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", *arguments],
        cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return done.stdout.rstrip()


def test_a_port_is_given_to_serve_as_to_the_examples() -> None:
    assert commands_of("serve", "PORT=18450").endswith("/mailonce serve --port 18450")
    assert commands_of("serve", port="18450").endswith("/mailonce serve --port 18450")
    assert commands_of("serve").endswith("/mailonce serve"), "the port is that of the settings"
