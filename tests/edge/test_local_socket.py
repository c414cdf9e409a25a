"""The sockets of servers in one data folder: each has its own, and takes no other one away."""

import contextlib
import os
import socket
from pathlib import Path

import httpx
import pytest

from mailonce.edge.cli.local_socket import SOCKET_NAMES, find_socket, open_local_socket
from mailonce.errors import ConfigError
from tests.commands import Shell

NOBODY = 65_534


def test_a_second_server_leaves_the_first_one_its_socket(tmp_path: Path) -> None:
    with open_local_socket(tmp_path):
        with open_local_socket(tmp_path):
            first_of_two = find_socket(tmp_path)
        after_the_second = find_socket(tmp_path)

    assert first_of_two == after_the_second == tmp_path / "mailonce.sock"
    assert find_socket(tmp_path) is None


def test_a_server_is_found_when_the_one_before_it_has_ended(tmp_path: Path) -> None:
    with contextlib.ExitStack() as second:
        with open_local_socket(tmp_path):
            second.enter_context(open_local_socket(tmp_path))

        found = find_socket(tmp_path)
        with open_local_socket(tmp_path):
            third = find_socket(tmp_path)

    assert found == tmp_path / "mailonce-2.sock"
    assert third == tmp_path / "mailonce.sock", "a name that was given back is taken again"


def test_what_a_crash_left_is_no_server_and_is_replaced(tmp_path: Path) -> None:
    left = tmp_path / SOCKET_NAMES[0]
    with socket.socket(socket.AF_UNIX) as crashed:
        crashed.bind(str(left))

    before = find_socket(tmp_path)
    with open_local_socket(tmp_path):
        after = find_socket(tmp_path)

    assert before is None
    assert after == left


def test_a_server_that_holds_no_lock_keeps_its_socket(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as earlier_version:
        earlier_version.bind(str(tmp_path / SOCKET_NAMES[0]))
        earlier_version.listen()

        with open_local_socket(tmp_path) as door:
            assert door is not None
            assert door.getsockname() == str(tmp_path / SOCKET_NAMES[1])
        found = find_socket(tmp_path)

    assert found == tmp_path / SOCKET_NAMES[0]


def test_a_crowd_in_one_folder_goes_without(tmp_path: Path) -> None:
    with contextlib.ExitStack() as crowd:
        doors = [crowd.enter_context(open_local_socket(tmp_path)) for _ in SOCKET_NAMES]
        late = crowd.enter_context(open_local_socket(tmp_path))

    assert None not in doors
    assert late is None


def test_a_folder_that_cannot_be_written_is_an_error_of_the_settings(tmp_path: Path) -> None:
    (tmp_path / "mailonce.sock-lock").mkdir()

    with (
        pytest.raises(ConfigError, match=r"`data_dir` .* cannot be written"),
        open_local_socket(tmp_path),
    ):
        pass


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_two_servers_on_postgresql_may_share_a_folder_and_it_is_said(
    tmp_path: Path, database_url: str
) -> None:
    shells = [Shell(tmp_path / name) for name in ("first", "second")]
    for shell in shells:
        shell.folder.mkdir()
        shell.env["MAILONCE_DATABASE"] = database_url
    first, second = shells
    first.data_dir.mkdir()
    second.data_dir.symlink_to(first.data_dir)

    with first.serving():
        with second.serving() as url:
            assert httpx.get(f"{url}/healthz").status_code == 200
        reloaded = first.run("reload")

    assert reloaded.code == 0, reloaded.err
    assert "data_dir_shared" in (second.folder / "server.log").read_text()
    assert "data_dir_shared" not in (first.folder / "server.log").read_text()


def test_the_folder_of_another_user_is_one_sentence(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0)
    user = os.geteuid()

    # Root may look into every folder.
    os.seteuid(NOBODY if user == 0 else user)
    try:
        with pytest.raises(ConfigError, match=r"data' cannot be looked into \(Permission denied\)"):
            find_socket(folder)
    finally:
        os.seteuid(user)
