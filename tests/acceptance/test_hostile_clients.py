"""Hostile clients take neither the memory nor the time of honest ones."""

import json
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.acceptance.harness import SETTINGS, Server, event, running, signed
from tests.acceptance.lines import connect, hear, resident_mb, webhook
from tests.forking import PYTHONPATH
from tests.stopwatch import Stopwatch

GUN = '\n[sources.gun]\nprovider = "mailgun"\nsecret = "k"\n'
RESIDENT_MB_MAX = 300


@dataclass
class Witness:
    """What honest clients saw during an attack."""

    codes: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    resident_mb: int = 0

    def __str__(self) -> str:
        times = sorted(self.seconds)
        places = [times[int(len(times) * share)] for share in (0.5, 0.9, 0.99)]
        shown = " ".join(f"{place:.3f}" for place in [*places, times[-1]])
        return (
            f"{len(times)} honest posts, p50 p90 p99 max: {shown} s; {self.resident_mb} MB at most"
        )


def attacked(server: Server, *, seconds: float, lines: int) -> Witness:
    """Post honestly while others attack, over new connections and over a kept one."""
    witness = Witness()
    attack = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tests.acceptance.hostile",
            str(server.port),
            str(seconds),
            str(lines),
        ],
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": PYTHONPATH},
        cwd=Path(__file__).parents[2],
    )
    kept = connect(server)
    number = 0
    while attack.poll() is None:
        number += 1
        body = json.dumps(event(f"honest {number}")).encode()
        line = kept if number % 2 else connect(server)
        began = time.monotonic()
        line.sendall(webhook(body, signed(body).items()))
        answer = hear(line, seconds=60)
        witness.seconds.append(time.monotonic() - began)
        witness.codes.append(int(answer[9:12] or 0))
        witness.resident_mb = max(witness.resident_mb, resident_mb(server))
        if line is not kept:
            line.close()
        time.sleep(0.02)
    kept.close()
    output, _ = attack.communicate(timeout=60)
    print(f"{lines} hostile connections: {witness}\n{output}")
    assert output.startswith("{'"), "the attack must have taken place"
    return witness


def make(sqlite_template: Path, folder: Path) -> Server:
    shutil.copy(sqlite_template, folder / "data.db")
    return Server(folder / "server", f"sqlite:///{folder / 'data.db'}", SETTINGS + GUN)


def test_a_thousand_hostile_clients_hold_up_nobody_for_long(
    sqlite_template: Path, tmp_path: Path
) -> None:
    with running(make(sqlite_template, tmp_path)) as server:
        with Stopwatch() as watch:
            witness = attacked(server, seconds=8, lines=1000)

        assert set(witness.codes) == {200}
        assert witness.resident_mb < RESIDENT_MB_MAX
        # A machine that runs other tests beside this one is given more time, not any.
        assert max(witness.seconds) / watch.slowness < 10


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("lines", [1, 11, 1000])
def test_hostile_clients_for_a_minute(sqlite_template: Path, tmp_path: Path, lines: int) -> None:
    with running(make(sqlite_template, tmp_path)) as server:
        witness = attacked(server, seconds=60, lines=lines)

        assert set(witness.codes) == {200}
        assert witness.resident_mb < RESIDENT_MB_MAX
        assert max(witness.seconds) < 1
        assert "unexpected_error" not in server.log
