"""Settings: read once from `mailonce.toml` and `MAILONCE_…`, then frozen.

Rule: One module for each table of the file; a setting has its limits and a description there.
Imports: `core`, `errors`.
"""

import os
import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import parse_qsl, urlsplit

from pydantic import Field, PrivateAttr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from mailonce.errors import ConfigError
from mailonce.settings.base_url import is_base_url
from mailonce.settings.expectations import ExpectationSettings
from mailonce.settings.inboxes import InboxSettings
from mailonce.settings.routes import RouteSettings
from mailonce.settings.secrets import check_admin_key, check_master_key
from mailonce.settings.senders import SenderSettings, SendSettings, StreamSettings
from mailonce.settings.sentence import names_by_table, sentence_of
from mailonce.settings.server import (
    DoorSettings,
    LimitSettings,
    NetSettings,
    WorkerSettings,
    WorkspaceSettings,
)
from mailonce.settings.set_variables import SetVariable, names_over_file, set_variables
from mailonce.settings.smtp import SmtpSettings
from mailonce.settings.sources import SourceSettings
from mailonce.settings.toml_file import DEFAULT_FILE, TomlFile, find_file, read_toml
from mailonce.settings.variable_source import VariableSource
from mailonce.settings.variables import TABLE, UnknownVariable, unknown_variables

__all__ = [
    "DoorSettings",
    "ExpectationSettings",
    "InboxSettings",
    "LimitSettings",
    "LogLevel",
    "NetSettings",
    "Role",
    "RouteSettings",
    "SendSettings",
    "SenderSettings",
    "Settings",
    "SmtpSettings",
    "SourceSettings",
    "StreamSettings",
    "WorkerSettings",
    "WorkspaceSettings",
    "read_net_settings",
    "read_settings",
    "sentence_of",
]

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class Role(StrEnum):
    """What a process does."""

    ALL = "all"
    DOOR = "door"
    WORKER = "worker"
    SMTP = "smtp"


class LogLevel(StrEnum):
    """What is logged: this, and what is more important."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class _FileSettings(BaseSettings):
    """Settings of a file and of variables."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments before environment before file."""
        del env_settings, dotenv_settings, file_secret_settings
        toml = TomlFile(settings_cls, _FILE.get("path"))
        return init_settings, VariableSource(settings_cls), toml


class Settings(_FileSettings):
    """All settings; each is also a variable such as MAILONCE_PORT or MAILONCE_NET__HOSTS."""

    model_config = SettingsConfigDict(
        env_prefix="MAILONCE_", env_nested_delimiter="__", extra="forbid", frozen=True
    )

    data_dir: Path = Field(default=Path("mailonce-data"), description="where files are kept")
    database: str = Field(
        default="", description="sqlite:///file or postgresql://…; default: in data_dir"
    )
    host: str = Field(default="127.0.0.1", description="address to listen on")
    port: int = Field(default=8100, ge=0, le=65535, description="port to listen on")
    public_url: str = Field(
        default="",
        description="where others reach this server, such as https://mail.example.com; "
        "default: the address that it listens on",
    )
    admin_key: str | None = Field(
        default=None,
        min_length=16,
        description="admin key of at least 16 characters, which replaces the one set before; "
        "else one is made and shown once, see `print_secrets`",
    )
    master_key: str | list[str] = Field(
        default=[],
        description="encrypts stored secrets; the first key encrypts, all decrypt; a start and "
        "`mailonce doctor` warn of fewer than 32 characters",
    )
    window_days: int = Field(default=35, ge=1, le=400, description="how long keys are remembered")
    facts_days: int = Field(
        default=400, ge=1, description="how long a message's facts outlive its last event"
    )
    roles: list[Role] = Field(
        default=[Role.ALL], min_length=1, description="what this process does; also --role"
    )
    app: str = Field(
        default="", description="`module:name` of your own Handlers; also --app; see handlers.md"
    )
    dev: bool = Field(
        default=False,
        description="mail that is sent goes into inboxes here, and none leaves; also --dev; "
        "see sends.md",
    )
    log_format: Literal["text", "json"] = Field(
        default="text",
        description="format of the log, which goes to standard error; with json each line that a "
        "server writes is one object, also of what libraries log",
    )
    log_level: LogLevel = Field(
        default=LogLevel.INFO,
        description="what is logged, from this level on; `debug` has no more lines than `info`; "
        "also --log-level",
    )
    print_secrets: bool = Field(
        default=False,
        description="print secrets that are made also where standard error is no terminal; "
        "else they go to a file in data_dir that only you may read",
    )
    not_in_file: Literal["switch_off", "keep"] = Field(
        default="switch_off",
        description="what becomes of sources, routes and senders that are taken out of the file; "
        "`keep` where servers of one database have different files",
    )
    sources: dict[str, SourceSettings] = Field(default={}, description="POST /in/NAME")
    routes: dict[str, RouteSettings] = Field(default={}, description="where events go")
    senders: dict[str, SenderSettings] = Field(
        default={}, description="how mail goes out; the first is the default"
    )
    streams: dict[str, StreamSettings] = Field(default={}, description="classes of mail")
    suppress: list[str] | None = Field(
        default=None, description="which events suppress an address; see status.md"
    )
    workspaces: dict[str, WorkspaceSettings] = Field(
        default={}, description="by id; `default` is the first one"
    )
    net: NetSettings = NetSettings()
    limits: LimitSettings = LimitSettings()
    door: DoorSettings = DoorSettings()
    worker: WorkerSettings = WorkerSettings()
    inboxes: InboxSettings = InboxSettings()
    expectations: ExpectationSettings = ExpectationSettings()
    smtp: SmtpSettings = SmtpSettings()
    sends: SendSettings = SendSettings()

    @field_validator("database")
    @classmethod
    def _known_scheme(cls, value: str) -> str:
        if value and value.partition("://")[0] not in {"sqlite", "postgresql", "postgres"}:
            raise ValueError("use sqlite:///path/to/file or postgresql://user@host/name")
        try:
            urlsplit(value)
        except ValueError:
            # Its own words may hold the password.
            raise ValueError("write [ in a password as %5B, and ] as %5D") from None
        return value

    @field_validator("public_url")
    @classmethod
    def _whole_url(cls, value: str) -> str:
        if value and not is_base_url(value):
            raise ValueError(
                "write it with scheme and host, such as https://mail.example.com, "
                "and without user, query and fragment"
            )
        return value

    _check_admin_key = field_validator("admin_key")(check_admin_key)
    _check_master_key = field_validator("master_key")(check_master_key)

    # Which file they were read from; None where there was none.
    _file: Path | None = PrivateAttr(default_factory=lambda: _FILE["path"])
    _variables: tuple[SetVariable, ...] = PrivateAttr(
        default_factory=lambda: set_variables(os.environ, Settings.model_fields)
    )

    @property
    def variables(self) -> tuple[SetVariable, ...]:
        """Give what variables set."""
        return self._variables

    def variables_over_file(self) -> list[str]:
        """Name the variables that give something else than the file, as it stands now."""
        return [] if self._file is None else names_over_file(read_toml(self._file), self._variables)

    @property
    def file(self) -> Path | None:
        """Give the file that the settings were read from; None where there was none."""
        return self._file

    @property
    def switches_off(self) -> bool:
        """Say whether records that these settings do not have are switched off.

        A process that was started where no file is, and that has none by its environment, knows
        nothing of them.
        """
        has_records = bool(self.sources or self.routes or self.senders)
        return self.not_in_file == "switch_off" and (self.file is not None or has_records)

    @property
    def database_url(self) -> str:
        """Give the database's URL, with its default."""
        return self.database or f"sqlite:///{self.data_dir / 'mailonce.db'}"

    @property
    def database_place(self) -> str:
        """Name the database without user, password and options, for people and to compare."""
        file = self.sqlite_file
        if file is not None:
            return f"sqlite:///{file.resolve()}"
        parts = urlsplit(self.database_url)
        options = dict(parse_qsl(parts.query))
        host = options.get("host") or parts.netloc.rpartition("@")[2].lower() or "localhost"
        port = options.get("port", "")
        name = options.get("dbname") or options.get("database") or parts.path.lstrip("/")
        place = f"{host}:{port}" if port else host
        return f"postgresql://{place.removesuffix(':5432')}/{name}"

    @property
    def master_key_file(self) -> Path:
        """Give the file that holds the master key where none is given."""
        return self.data_dir / "master.key"

    @property
    def base_url(self) -> str:
        """Give the address that links to this server begin with."""
        return self.public_url.rstrip("/") or f"http://{self.host}:{self.port}"

    @property
    def sqlite_file(self) -> Path | None:
        """Give the database's file, or None where it is no SQLite."""
        scheme, _, rest = self.database_url.partition("://")
        return Path(rest.removeprefix("/")) if scheme == "sqlite" else None

    def has_role(self, role: Role) -> bool:
        """Say whether this process does that."""
        return role in self.roles or Role.ALL in self.roles

    @property
    def smtp_host(self) -> str:
        """Give the address of the SMTP door, with its default."""
        return self.smtp.host or self.host

    @property
    def public_host(self) -> str | None:
        """Give the address at which other machines can reach us; None where they cannot."""
        hosts = [self.host, *([self.smtp_host] if self.has_role(Role.SMTP) else [])]
        return next((host for host in hosts if host not in LOOPBACK), None)


class _NetTable(_FileSettings):
    """The table `net`, whatever else there is."""

    model_config = SettingsConfigDict(
        env_prefix="MAILONCE_", env_nested_delimiter="__", extra="ignore", frozen=True
    )

    net: NetSettings = NetSettings()


_S = TypeVar("_S", bound=_FileSettings)

# Where `_read` tells pydantic which file to look at; it has no argument for it.
_FILE: dict[str, Path | None] = {"path": None}


def read_settings(file: Path | None = None, **given: Any) -> Settings:
    """Read the settings; `given` values (from the command line) win.

    Raises: ConfigError, one sentence that names the setting and the fix.
    """
    lost = next((one for one in variables_unread() if TABLE in one.name), None)
    if lost is not None:
        raise ConfigError(f"{lost.name} names no setting; {lost.advice}")
    return _read(Settings, file, given)


def read_net_settings(file: Path | None = None) -> NetSettings:
    """Read `net` alone, for a command whose server is elsewhere: nothing else need be right here.

    Raises: ConfigError, one sentence that names the setting and the fix.
    """
    return _read(_NetTable, file, {}).net


def _read(kind: type[_S], file: Path | None, given: Mapping[str, Any]) -> _S:
    path = find_file(file)
    _FILE["path"] = path
    try:
        return kind(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        raise ConfigError(_of_lone_variable(error, path) or sentence_of(error, kind)) from error
    except SettingsError as error:
        raise ConfigError(_sentence_of_variable(str(error))) from error
    finally:
        _FILE["path"] = None


def variables_unread() -> list[UnknownVariable]:
    """List the variables of this process that begin as settings do, and are none."""
    return unknown_variables(os.environ, names_by_table(Settings))


def _of_lone_variable(error: ValidationError, file: Path | None) -> str | None:
    """Say that a variable belongs to a record which the file does not have, where that is so."""
    first = error.errors(include_url=False, include_input=False)[0]
    if first["type"] != "missing" or len(first["loc"]) != 3:
        return None
    table, name, _ = map(str, first["loc"])
    prefix = f"mailonce_{table}__{name}__"
    variable = next((one for one in sorted(os.environ) if one.lower().startswith(prefix)), None)
    in_file = {} if file is None else read_toml(file)
    if variable is None or name in in_file.get(table, {}):
        return None
    if file is None:
        return (
            f"{variable} is set for [{table}.{name}] of a settings file, but there is no "
            f"{DEFAULT_FILE} in {Path.cwd()}; name the file with --config, or run in its folder"
        )
    return (
        f"{variable} is set, but the settings file has no [{table}.{name}]; "
        "remove the variable and restart, or put it back"
    )


def _sentence_of_variable(error: str) -> str:
    """Say that a variable holds no JSON where it must: pydantic tells the setting or its table."""
    name = re.findall(r'field "(\w+)"', error)[0]
    return (
        f"`{name}` is wrong in a variable MAILONCE_{name.upper()}…: write a list as "
        '\'["one", "two"]\' and a table as \'{"name": "value"}\'; see docs/settings.md'
    )
