"""Reload: read the settings again while the server runs, whole or not at all.

The file is read and checked, its records are written in one transaction, and only then the parts
of this process take what changed; nothing of that can fail. So a wrong file changes nothing, here
or in the database. Settings that parts are built with wait for a restart, and are named.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from mailonce.errors import ConfigError, MailonceError
from mailonce.manage.records import MissingSettingError
from mailonce.manage.settings_file import ReloadReport, ShowSecret, apply_settings
from mailonce.service import Service
from mailonce.settings import Settings
from mailonce.telemetry import RELOAD_REFUSED, SETTINGS_RELOADED, log
from mailonce.wiring import check_settings, use_settings

# What changes without a restart: whole settings, or those of a table.
LIVE = frozenset(
    {"sources", "routes", "senders", "suppress", "workspaces", "admin_key", "log_level"}
    | {"not_in_file", "net.allow_hosts", "net.hosts", "net.trusted_proxies"}
)
LIVE_TABLES = frozenset({"limits", "door", "expectations"})
# Of these tables, what parts are built with.
BUILT_IN = frozenset({"limits.flushers"})
RECORDS = frozenset({"sources", "routes", "senders"})


class SettingsReload:
    """Reads the settings of a running server again, one time after the other."""

    def __init__(
        self,
        service: Service,
        settings: Settings,
        read: Callable[[], Settings],
        show_secret: ShowSecret,
    ) -> None:
        self._service = service
        # What is in force: what waits for a restart is not in it.
        self.settings = settings
        self._read = read
        self._show_secret = show_secret
        self._one_at_a_time = asyncio.Lock()

    async def run(self) -> ReloadReport:
        """Read the settings, and let what can change without a restart take effect.

        Raises: MailonceError, in one sentence; then everything is as it was.
        """
        async with self._one_at_a_time:
            try:
                return await self._reload()
            except MailonceError as error:
                log.error(RELOAD_REFUSED, reason=str(error))
                raise

    async def _reload(self) -> ReloadReport:
        before, read = self.settings, self._read()
        if before.file is not None and read.file is None:
            raise ConfigError(f"there is no file {str(before.file)!r} any more; put it back")
        names, over_file = _differences(before, read), read.variables_over_file()
        changed = tuple(name for name in names if is_live(name))
        wanted = _with(before, read, changed)
        try:
            check_settings(wanted)
            # What waits for a restart must not keep that from succeeding.
            check_settings(read)
        except MissingSettingError as error:
            # The shell that asks may have a variable which this process was started without.
            raise ConfigError(f"{error}; a variable counts only after a restart") from error
        applied = await apply_settings(
            self._service.manage,
            wanted,
            self._show_secret,
            allow_hosts=(*wanted.net.allow_hosts, *wanted.net.hosts),
            # Each record has an entry of its own.
            reloaded=[name for name in changed if name not in RECORDS],
        )
        use_settings(self._service, wanted)
        self.settings = wanted
        # Also what stood in the file all the time, and was changed or removed in other ways.
        records = [str(one) for one in applied.changed if f"{one.noun}s" not in changed]
        report = ReloadReport(
            (*changed, *records),
            tuple(name for name in names if not is_live(name)),
            tuple(str(one) for one in applied.off),
            tuple(sorted({one.name for one in read.variables})),
            tuple(over_file),
        )
        log.info(
            SETTINGS_RELOADED,
            changed=report.changed,
            restart=report.restart,
            over_file=report.over_file,
        )
        return report


def is_live(name: str) -> bool:
    """Say whether a setting changes without a restart."""
    return name in LIVE or (name.partition(".")[0] in LIVE_TABLES and name not in BUILT_IN)


def _differences(before: Settings, after: Settings) -> list[str]:
    """Name the settings that differ; those of a table as `table.name`."""
    names: list[str] = []
    for name in Settings.model_fields:
        old, new = getattr(before, name), getattr(after, name)
        if old == new:
            continue
        fields = getattr(type(new), "model_fields", None)
        if fields is None:
            names.append(name)
        else:
            differ = (one for one in fields if getattr(old, one) != getattr(new, one))
            names += [f"{name}.{one}" for one in differ]
    return names


def _with(before: Settings, read: Settings, changed: tuple[str, ...]) -> Settings:
    """Give the settings that are in force, with those that changed."""
    values: dict[str, Any] = {}
    for setting in changed:
        table, _, name = setting.partition(".")
        if name:
            part = values.get(table, getattr(before, table))
            values[table] = part.model_copy(update={name: getattr(getattr(read, table), name)})
        else:
            values[table] = getattr(read, table)
    return before.model_copy(update=values)
