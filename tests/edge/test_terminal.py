"""On a terminal of 80 columns no table cuts what is copied; long work is followed to its end."""

import re
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from mailonce.testing import EventType, Happening, make_simulators
from tests.commands import Shell, post
from tests.edge.test_listen import Terminal
from tests.servers import wait_for

LONG_ADDRESS = "somebody.with.a.long.name@mail.customer-of-ours.example.net"
# Each listing, and the command that takes an id which it shows.
LISTINGS = {
    ("source", "list"): (r"src_\S+", ("source", "show")),
    ("route", "list"): (r"rte_\S+", ("route", "show")),
    ("sender", "list"): (r"snr_\S+", ("sender", "show")),
    ("inbox", "list"): (r"inb_\S+", ("inbox", "show")),
    ("sends", "list"): (r"snd_\S+", ("sends", "show")),
    ("events", "list"): (r"evt_\S+", ("events", "show")),
    ("delivery", "list"): (r"dlv_\S+", ("delivery", "show")),
    ("undelivered",): (r"dlv_\S+", ("delivery", "show")),
    ("dead", "list"): (r"dead_\S+", ("dead", "show")),
    ("key", "list"): (r"a-key-with-quite-a-long-name", ("key", "list")),
    ("suppression", "list"): (rf"{LONG_ADDRESS}", ("suppression", "show")),
}
TIME = re.compile(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ")
DAY = re.compile(r"\b20\d\d-\d\d-\d\d|\b20\d\d-\S*…")
# Listings that show whom a mail was sent to.
ADDRESSED = frozenset({("events", "list"), ("sends", "list"), ("suppression", "list")})
SETTINGS = """
[sources.a-source-with-quite-a-long-name]
provider = "sesmetric"
secret = "{secret}"
[routes.a-route-with-quite-a-long-name]
url = "http://127.0.0.1:1/hooks"
waits_s = []
[routes.waits]
kind = "poll"
[senders.out]
provider = "smtp"
host = "127.0.0.1"
[net]
allow_hosts = ["127.0.0.1"]
"""


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed, so there is no terminal of 80 columns")
    shell = Shell(tmp_path_factory.mktemp("terminal"))
    simulator = make_simulators(seed="ids")["sesmetric"]
    settings = SETTINGS.format(secret=simulator.settings()["secret"])
    (shell.folder / "mailonce.toml").write_text(settings)
    with shell.serving() as url:
        happening = Happening("e-1", EventType.DELIVERED, "m-1", LONG_ADDRESS, 1_790_000_000)
        made = simulator.post([happening], now_s=int(time.time()))
        post(url, "/in/a-source-with-quite-a-long-name", made)
        shell.ok("inbox", "create")
        mail = ("--from", "shop@example.com", "--subject", "Hello", "--text", "Hello")
        shell.ok("key", "add", "--name", "a-key-with-quite-a-long-name")
        shell.ok("suppression", "add", LONG_ADDRESS, "--reason", "asked for it, twice, by letter")
        shell.ok("send", LONG_ADDRESS, "--cause", "c-1", *mail)
        wait_for(lambda: shell.ok("dead", "list", "--json").json["data"], what="a dead letter")
        yield shell


FEW = (("source", "list"), ("inbox", "list"), ("undelivered",))


@pytest.mark.parametrize(
    "listings",
    [pytest.param(FEW, id="few"), pytest.param(tuple(LISTINGS), id="all", marks=pytest.mark.long)],
)
def test_what_a_terminal_of_80_columns_shows_is_whole_and_can_be_used(
    shell: Shell, tmp_path: Path, listings: Sequence[tuple[str, ...]], subtests: pytest.Subtests
) -> None:
    terminal = Terminal(tmp_path, columns=80, lines=24)
    mailonce = shlex.join((sys.executable, "-m", "mailonce"))
    script = tmp_path / "listings.sh"
    lines = [f"clear; {mailonce} {' '.join(one)}; echo end of {'/'.join(one)}; read _"
             for one in listings]  # fmt: skip
    script.write_text("\n".join(lines))
    try:
        terminal.start(f"bash {script}", shell.folder, shell.environment)
        for listing in listings:
            seen = _wait_for(terminal, f"end of {'/'.join(listing)}")
            pattern, show = LISTINGS[listing]
            with subtests.test(" ".join(listing)):
                ids = re.findall(pattern, seen)
                assert ids, seen
                assert "…" not in seen, seen
                assert len(TIME.findall(seen)) == len(DAY.findall(seen)), seen
                assert LONG_ADDRESS in seen or listing not in ADDRESSED, seen
                if show != listing:
                    assert shell.run(*show, ids[0]).code == 0, seen
            terminal.press("Enter")
    finally:
        terminal.end()


def _wait_for(terminal: Terminal, words: str) -> str:
    wait_for(lambda: words in terminal.shown(), what=words)
    return terminal.shown()


def test_a_redelivery_is_followed_on_a_terminal_until_nothing_moves(shell: Shell) -> None:
    route = ("--route", "a-route-with-quite-a-long-name")

    followed = shell.run_on_a_terminal("redeliver", *route, "--yes")

    assert followed.code == 1, followed.out
    assert "queued 1 of 1 deliveries" in followed.out
    assert "done" in followed.out
    assert "0 delivered, 1 failed" in followed.out
