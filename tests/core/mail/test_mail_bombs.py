"""Mails that are made to be dear cost no more than honest ones."""

import json
import subprocess
import sys
import time

import pytest

from tests.core.mail.bombs import make_bombs
from tests.core.mail.mails import make_mail, read

# How many times the processor time of an honest mail of the same size a bomb may take.
DEARER_MAX = 3
SMALL_BYTES = 1 << 19
LARGE_BYTES = 64 << 20
SECONDS_MAX = 1.0
MEMORY_MB_MAX = 300
MEASURE = """
import json, re, sys, time
from pathlib import Path
from tests.core.mail.bombs import make_bombs
from tests.core.mail.mails import read

raw = make_bombs()[sys.argv[1]](int(sys.argv[2]))
began_s = time.process_time()
read(raw)
used_s = time.process_time() - began_s
# Not ru_maxrss: that of a process which was just started is that of who started it.
peak_kb = int(re.search("VmHWM:\\s+([0-9]+)", Path("/proc/self/status").read_text())[1])
print(json.dumps([used_s, peak_kb / 1024]))
"""


def test_a_bomb_costs_little_more_than_an_honest_mail_of_its_size(
    subtests: pytest.Subtests,
) -> None:
    line = '<p>Line <b>1</b> of an ordinary <a href="https://example.net/1">letter</a></p>\n'
    honest = make_mail(line * (SMALL_BYTES // len(line)), "Content-Type: text/html")
    honest_s = min(cost(honest), cost(honest))
    for name, make in make_bombs().items():
        raw = make(SMALL_BYTES)
        with subtests.test(name):
            used_s = cost(raw)
            if used_s >= DEARER_MAX * honest_s:
                # Others may have been at work in just that moment.
                used_s, honest_s = cost(raw), cost(honest)

            assert used_s < DEARER_MAX * honest_s


def cost(raw: bytes) -> float:
    began_s = time.thread_time()
    read(raw)
    return time.thread_time() - began_s


def test_twice_the_bomb_takes_no_more_than_twice_the_steps(subtests: pytest.Subtests) -> None:
    for name, make in make_bombs().items():
        with subtests.test(name):
            once, twice = (count_calls(make(size)) for size in (12_000, 24_000))

            assert twice < 2.2 * once + 500


def count_calls(raw: bytes) -> int:
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        read(raw)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.long
def test_a_bomb_of_full_size_takes_a_second_and_300_mb(subtests: pytest.Subtests) -> None:
    for name in make_bombs():
        with subtests.test(name):
            command = [sys.executable, "-c", MEASURE, name, str(LARGE_BYTES)]
            output = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout
            seconds, memory_mb = json.loads(output)

            assert seconds < SECONDS_MAX
            assert memory_mb < MEMORY_MB_MAX
