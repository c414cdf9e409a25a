"""The settings' admin key: the one they have now is in force, whatever was done before."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mailonce.core.access import Scope
from mailonce.errors import MissingError, RefusedError, VerifyError
from mailonce.manage.settings_file import apply_settings
from mailonce.service import Service
from mailonce.settings import read_settings
from mailonce.wiring import build_service

OLD, NEW = "an-old-admin-key-1234", "a-new-admin-key-5678"


@asynccontextmanager
async def start(
    database_url: str, folder: Path, admin_key: str | None
) -> AsyncIterator[tuple[Service, list[str]]]:
    """What a start does to the database, and what it shows once."""
    settings = read_settings(
        database=database_url, data_dir=folder, admin_key=admin_key, master_key="shared"
    )
    service = await build_service(settings)
    try:
        shown: list[str] = []
        await apply_settings(service.manage, settings, lambda _, secret: shown.append(secret))
        yield service, shown
    finally:
        await service.database.close()


async def test_a_changed_key_replaces_the_former(database_url: str, tmp_path: Path) -> None:
    async with start(database_url, tmp_path, OLD) as (service, _):
        _, other = await service.manage.keys.make("default", Scope.ADMIN, "a second admin's")
        assert (await service.manage.keys.caller_of(OLD)).is_admin

    async with start(database_url, tmp_path, NEW) as (service, _):
        assert (await service.manage.keys.caller_of(NEW)).is_admin
        assert (await service.manage.keys.caller_of(other)).is_admin
        with pytest.raises(VerifyError):
            await service.manage.keys.caller_of(OLD)

    # Whoever sets the former one again means it.
    async with start(database_url, tmp_path, OLD) as (service, _):
        assert (await service.manage.keys.caller_of(OLD)).is_admin
        with pytest.raises(VerifyError):
            await service.manage.keys.caller_of(NEW)


async def test_nobody_but_an_admin_sees_or_revokes_an_admins_key(
    database_url: str, tmp_path: Path
) -> None:
    async with start(database_url, tmp_path, OLD) as (service, _):
        admin = await service.manage.keys.caller_of(OLD)
        second, _ = await service.manage.keys.make("default", Scope.ADMIN, "a second admin's")
        _, secret = await service.manage.keys.make("default", Scope.OPERATOR, "an operator's")
        operator = await service.manage.keys.caller_of(secret)
        everyones = await service.manage.keys.list_of(admin)
        [settings_key] = [key for key in everyones if key.name == "MAILONCE_ADMIN_KEY"]

        assert [key.name for key in await service.manage.keys.list_of(operator)] == [
            "an operator's"
        ]
        for key in (settings_key, second):
            with pytest.raises(MissingError):
                await service.manage.keys.revoke(operator, key.id)
        # Not even an admin: after the next start it would be back.
        with pytest.raises(RefusedError, match="change MAILONCE_ADMIN_KEY"):
            await service.manage.keys.revoke(admin, settings_key.id)
        with pytest.raises(RefusedError, match="use another"):
            await service.manage.keys.make("default", Scope.ADMIN, "MAILONCE_ADMIN_KEY")

        await service.manage.keys.revoke(admin, second.id)
        assert (await service.manage.keys.caller_of(OLD)).is_admin


async def test_where_no_admin_key_is_left_the_next_start_makes_one(
    database_url: str, tmp_path: Path
) -> None:
    async with start(database_url, tmp_path, None) as (service, [first]):
        admin = await service.manage.keys.caller_of(first)
        [key] = await service.manage.keys.list_of(admin)
        await service.manage.keys.revoke(admin, key.id)

    async with start(database_url, tmp_path, None) as (service, [second]):
        assert (await service.manage.keys.caller_of(second)).is_admin
        with pytest.raises(VerifyError):
            await service.manage.keys.caller_of(first)

    async with start(database_url, tmp_path, None) as (_, shown):
        assert shown == []


async def test_the_key_of_the_first_start_is_named_as_one(
    database_url: str, tmp_path: Path
) -> None:
    async with start(database_url, tmp_path, None) as (service, [secret]):
        admin = await service.manage.keys.caller_of(secret)

        assert [one.name for one in await service.manage.keys.list_of(admin)] == [
            "admin key (made at first start)"
        ]
