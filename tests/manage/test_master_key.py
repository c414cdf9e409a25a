"""The file of the master key: whole or not there, and said in a sentence what is wrong with it."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mailonce.clock import Clock
from mailonce.errors import ConfigError
from mailonce.manage.master_key import master_keys_of
from mailonce.settings import Settings

WRONG: dict[str, Callable[[Path], object]] = {
    "empty": Path.touch,
    "folder": Path.mkdir,
    "no text": lambda path: path.write_bytes(b"\xff\xfe"),
    "leads nowhere": lambda path: path.symlink_to("nowhere"),
}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path)


@pytest.mark.parametrize("make", WRONG.values(), ids=WRONG)
def test_a_file_without_a_key_is_named(settings: Settings, make: Callable[[Path], object]) -> None:
    make(settings.master_key_file)

    with pytest.raises(ConfigError, match=r"master\.key"):
        master_keys_of(settings, Clock())


def test_a_crash_while_the_key_is_written_leaves_no_file_of_its_name(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", crash)
    with pytest.raises(KeyboardInterrupt):
        master_keys_of(settings, Clock())
    monkeypatch.undo()

    assert not settings.master_key_file.exists()
    assert len(master_keys_of(settings, Clock())) == 1


def test_processes_that_start_at_once_have_one_key(settings: Settings) -> None:
    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(lambda _: master_keys_of(settings, Clock()), range(32)))

    assert len({tuple(one) for one in keys}) == 1
    assert [one.name for one in settings.data_dir.iterdir()] == ["master.key"]
    assert settings.master_key_file.stat().st_mode & 0o777 == 0o600


def test_without_links_a_key_that_another_process_has_made_is_kept(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        # Another process is first, just now.
        settings.master_key_file.write_text("theirs\n")
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)

    keys = master_keys_of(settings, Clock())

    assert keys == ["theirs"]
    assert [one.name for one in settings.data_dir.iterdir()] == ["master.key"]


def test_without_links_a_key_is_made(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)

    made, again = (master_keys_of(settings, Clock()) for _ in range(2))

    assert made == again
    assert settings.master_key_file.stat().st_mode & 0o777 == 0o600
