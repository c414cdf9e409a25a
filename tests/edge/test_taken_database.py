"""A command whose database another command has: it waits, and then says who has it."""

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from mailonce.edge.cli import client
from mailonce.edge.cli.client import ServerAddress, open_client
from mailonce.edge.cli.local_socket import open_local_socket
from mailonce.errors import TakenError
from mailonce.store.dialects.sqlite.file import take_lock

HOLDS_LOCK_S = 3 * client.TAKEN_LOOK_S


async def list_sources(folder: Path) -> Any:
    async with open_client(ServerAddress(data_dir=folder)) as session:
        return await session.get("sources")


async def begin_to_wait(folder: Path) -> "asyncio.Task[Any]":
    """Start a command, and give it the time to look a few times."""
    waiting = asyncio.create_task(list_sources(folder))
    await asyncio.sleep(HOLDS_LOCK_S)
    assert not waiting.done(), "it waits"
    return waiting


async def test_a_command_waits_for_the_end_of_another(tmp_path: Path) -> None:
    await list_sources(tmp_path)
    lock = take_lock(tmp_path / "mailonce.db")
    waiting = await begin_to_wait(tmp_path)

    os.close(lock)

    assert (await asyncio.wait_for(waiting, 30))["data"] == []


async def test_a_database_that_the_other_command_made_is_not_called_new(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    other, ours = tmp_path / "other", tmp_path / "ours"
    await list_sources(other)
    assert "made a new database" in capfd.readouterr().err
    lock = take_lock(ours / "mailonce.db")
    waiting = await begin_to_wait(ours)

    shutil.copytree(other, ours, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.lock"))
    os.close(lock)

    assert (await asyncio.wait_for(waiting, 30))["data"] == []
    assert "made a new database" not in capfd.readouterr().err


async def test_a_command_finds_the_server_that_began_meanwhile(tmp_path: Path) -> None:
    await list_sources(tmp_path)
    lock = take_lock(tmp_path / "mailonce.db")
    waiting = await begin_to_wait(tmp_path)
    asked = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n" + b'{"data": [1]}')
        asked.set()
        writer.close()

    with open_local_socket(tmp_path) as door:
        assert door is not None
        async with await asyncio.start_unix_server(answer, sock=door):
            page = await asyncio.wait_for(waiting, 30)
            await asked.wait()

    os.close(lock)
    assert page == {"data": [1]}


async def test_after_some_seconds_it_is_told_who_has_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await list_sources(tmp_path)
    lock = take_lock(tmp_path / "mailonce.db")
    monkeypatch.setattr(client, "TAKEN_WAIT_S", 2 * client.TAKEN_LOOK_S)

    with pytest.raises(TakenError, match=rf"mailonce.db open; stop it \(process {os.getpid()}\)"):
        await asyncio.wait_for(list_sources(tmp_path), 30)

    os.close(lock)
