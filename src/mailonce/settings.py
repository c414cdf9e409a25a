"""Settings: read once from `mailonce.toml` and `MAILONCE_…`, then frozen."""

import tomllib
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from mailonce.core.arrivals.source import Poison
from mailonce.core.deliveries.route import BLAMED_ATTEMPTS_MAX, DEADLINE_S, WAITS_S, RouteKind
from mailonce.core.deliveries.route_secret import Signing
from mailonce.errors import ConfigError

DEFAULT_FILE = Path("mailonce.toml")
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class Role(StrEnum):
    """What a process does."""

    ALL = "all"
    DOOR = "door"
    WORKER = "worker"


_YEARS_S = 10 * 366 * 86_400
ONE_OR_MORE = "one value, or a list of values while rotating"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SourceSettings(_Part):
    """One configured account of a provider."""

    provider: str = Field(description="the mail service, e.g. sendgrid; see GET /v1/providers")
    account: str | None = Field(
        default=None, description="scope of keys; sources that share it collapse copies"
    )
    secret: str | list[str] = Field(default=[], description=f"HMAC secret: {ONE_OR_MORE}")
    public_key: str | list[str] = Field(
        default=[], description=f"public key or certificate: {ONE_OR_MORE}"
    )
    basic: str | list[str] = Field(default=[], description=f"user:password: {ONE_OR_MORE}")
    token: str | list[str] = Field(
        default=[], description=f"secret at the end of the URL, or bearer token: {ONE_OR_MORE}"
    )
    header: str | list[str] = Field(
        default=[], description=f"'Name: value' that must be present: {ONE_OR_MORE}"
    )
    allow_ips: list[str] = Field(default=[], description="addresses or networks of the sender")
    topic_arns: list[str] = Field(default=[], description="allowed SNS topics (SES)")
    unproven: bool = Field(default=False, description="accept arrivals without any proof")
    unsigned: bool = Field(
        default=False,
        description="the provider does not sign here; `basic`, `token`, `header` or `allow_ips` do",
    )
    poison: Poison = Field(
        default=Poison.DEAD_LETTER, description="what becomes of verified, unreadable arrivals"
    )
    poison_attempts: int = Field(
        default=5, ge=1, le=100, description="tries before a dead letter, with poison = retry"
    )
    freshness_s: int | None = Field(
        default=None, ge=0, le=_YEARS_S, description="how old a signed timestamp may be; 0: any age"
    )
    silence_s: int | None = Field(
        default=None,
        ge=0,
        le=_YEARS_S,
        description="silence that raises an alarm; default: learned; 0: never",
    )
    options: dict[str, Any] = Field(default={}, description="options of this provider")


class RouteSettings(_Part):
    """A filter over events, and the target of those that pass."""

    kind: RouteKind = Field(
        default=RouteKind.WEBHOOK,
        description="webhook: mailonce posts; poll: you fetch (--app runs your own code)",
    )
    url: str = Field(default="", description="where a webhook is posted to")
    events: list[str] = Field(default=["*"], description="types of event; * is all of them")
    sources: list[str] = Field(default=[], description="names or ids; none: from every source")
    domains: list[str] = Field(
        default=[], description="of the recipient; a domain stands for its subdomains, too"
    )
    tags: list[str] = Field(default=[], description="one of them is enough")
    metadata: dict[str, Any] = Field(default={}, description="all of them must be equal")
    expression: str = Field(
        default="", description="JMESPath over the event as it is sent; true lets it pass"
    )
    mapping: Any = Field(
        default=None, description="the body to send instead; '$.path' is taken from the event"
    )
    secret: str | list[str] = Field(
        default=[], description="whsec_… or whsk_…, all of them sign; none: one is made"
    )
    signing: Signing = Field(
        default=Signing.HMAC, description="the kind of secret to make where none is given"
    )
    headers: dict[str, str] = Field(default={}, description="further headers of each request")
    waits_s: list[Annotated[float, Field(ge=0, le=7 * 86_400)]] = Field(
        default=list(WAITS_S), max_length=50, description="seconds between the attempts"
    )
    deadline_s: int = Field(
        default=DEADLINE_S,
        ge=1,
        le=_YEARS_S,
        description="when to give up, counted from the event's receipt",
    )
    blamed_attempts_max: int = Field(
        default=BLAMED_ATTEMPTS_MAX,
        ge=1,
        le=100,
        description="attempts in all where the answer rejects the request (400, 404 …); "
        "by default the first is the last",
    )
    timeout_s: float = Field(default=15.0, gt=0, le=60, description="how long an answer may take")
    concurrency: int = Field(default=32, ge=1, le=1000, description="requests at once")
    rate_per_s: float | None = Field(
        default=None, gt=0, le=100_000, description="attempts a second; default: no limit"
    )

    @field_validator("kind")
    @classmethod
    def _has_no_code(cls, value: RouteKind) -> RouteKind:
        if value is RouteKind.HANDLER:
            raise ValueError(
                "a handler is made by your own code with `mailonce serve --app`; "
                "use webhook or poll"
            )
        return value


class NetSettings(_Part):
    """Outgoing calls."""

    allow_hosts: list[str] = Field(
        default=[], description="private or loopback hosts that outgoing calls may reach"
    )
    hosts: dict[str, str] = Field(
        default={}, description="host = 'ip:port': where calls to that host go instead"
    )
    ca_file: Path | None = Field(default=None, description="further certificates to trust")
    trusted_proxies: list[str] = Field(
        default=[], description="proxies whose X-Forwarded-For is believed"
    )


class WorkspaceSettings(_Part):
    """Settings of one workspace."""

    suppress: list[str] = Field(description="which events suppress an address; see status.md")


class LimitSettings(_Part):
    """Limits on what is held in memory."""

    body_bytes_max: int = Field(default=10 << 20, ge=1024)
    queue_events_max: int = Field(default=20_000, ge=1)
    queue_bytes_max: int = Field(default=128 << 20, ge=1024)
    source_events_max: int = Field(default=10_000, ge=1)
    batch_events_max: int = Field(default=500, ge=1)
    arrival_events_max: int = Field(
        default=5_000, ge=1, description="events of one body; a larger one is refused with 413"
    )
    batch_bytes_max: int = Field(default=8 << 20, ge=1024)
    flushers: int = Field(default=1, ge=1, le=8)


class DoorSettings(_Part):
    """Limits of the HTTP door, for one client and for all of them together."""

    connections_max: int = Field(
        default=8192,
        ge=16,
        description="open at once; fewer where the file limit is lower; idle ones make room",
    )
    address_connections_max: int = Field(
        default=1024,
        ge=1,
        description="open at once from one address; trusted proxies do not count",
    )
    head_bytes_max: int = Field(
        default=64 << 10, ge=1024, le=1 << 20, description="request line and headers"
    )
    headers_max: int = Field(default=100, ge=10, le=10_000, description="headers of a request")
    api_body_bytes_max: int = Field(
        default=256 << 10, ge=1024, description="body of any request but POST /in/…"
    )
    held_bytes_max: int = Field(
        default=64 << 20,
        ge=1 << 20,
        description="half sent, pipelined or unanswered, over all connections",
    )
    head_timeout_s: float = Field(
        default=10.0, gt=0, description="for a head, and for the first byte of a connection"
    )
    body_timeout_s: float = Field(default=20.0, gt=0, description="for a body that has stalled")
    body_bytes_per_s_min: int = Field(
        default=10_000, ge=1, description="pace of a body, once it took longer than its timeout"
    )
    idle_timeout_s: float = Field(
        default=75.0, gt=0, description="between two requests of a connection"
    )
    answer_timeout_s: float = Field(
        default=30.0, gt=0, description="for a client that reads nothing of its answer"
    )


class WorkerSettings(_Part):
    """The worker that makes deliveries."""

    concurrency: int = Field(
        default=512, ge=1, le=10_000, description="attempts under way at once in this process"
    )
    lease_s: float = Field(
        default=30.0, gt=0, description="how long a lease lasts; at least twice a route's timeout_s"
    )
    hold_s: float = Field(
        default=10.0, gt=0, description="how long a paused worker keeps a route's lane"
    )
    drain_s: float = Field(
        default=15.0, ge=0, description="how long attempts under way may take when stopping"
    )
    lost_leases_max: int = Field(
        default=8, ge=1, description="leases lost with their workers before a dead letter"
    )
    breaker_failures: int = Field(
        default=10, ge=1, description="failures in a row after which an endpoint is taken as down"
    )
    breaker_wait_s: float = Field(
        default=5.0, gt=0, description="wait before one attempt tries again; doubles up to 60 s"
    )


class Settings(BaseSettings):
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
    admin_key: str | None = Field(
        default=None,
        min_length=16,
        description="operator key, which replaces the one set before; "
        "else one is made and printed once",
    )
    master_key: str | list[str] = Field(
        default=[], description="seals stored secrets; the first seals, all open"
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
    log_format: Literal["text", "json"] = Field(default="text", description="of standard error")
    sources: dict[str, SourceSettings] = Field(default={}, description="POST /in/{name}")
    routes: dict[str, RouteSettings] = Field(default={}, description="where events go")
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

    @field_validator("database")
    @classmethod
    def _known_scheme(cls, value: str) -> str:
        if value and value.partition("://")[0] not in {"sqlite", "postgresql", "postgres"}:
            raise ValueError("use sqlite:///path/to/file or postgresql://user@host/name")
        return value

    @property
    def database_url(self) -> str:
        """Give the database's URL, with its default."""
        return self.database or f"sqlite:///{self.data_dir / 'mailonce.db'}"

    @property
    def sqlite_file(self) -> Path | None:
        """Give the database's file, or None where it is no SQLite."""
        scheme, _, rest = self.database_url.partition("://")
        return Path(rest.removeprefix("/")) if scheme == "sqlite" else None

    def has_role(self, role: Role) -> bool:
        """Say whether this process does that."""
        return role in self.roles or Role.ALL in self.roles

    @property
    def is_public(self) -> bool:
        """Say whether other machines can reach us."""
        return self.host not in LOOPBACK

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
        del dotenv_settings, file_secret_settings
        file = _FILE.get("path")
        toml = TomlConfigSettingsSource(settings_cls, file)
        return init_settings, env_settings, toml


# Where `read` tells pydantic which file to look at; it has no argument for it.
_FILE: dict[str, Path | None] = {"path": None}


def read_settings(file: Path | None = None, **given: Any) -> Settings:
    """Read the settings; `given` values (from the command line) win.

    Raises: ConfigError, one sentence that names the setting and the fix.
    """
    if file is not None and not file.is_file():
        raise ConfigError(f"there is no file {str(file)!r}; make it, or leave --config out")
    path = file or (DEFAULT_FILE if DEFAULT_FILE.is_file() else None)
    _FILE["path"] = path
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}; correct that line") from error
    except ValidationError as error:
        raise ConfigError(_sentence(error)) from error
    finally:
        _FILE["path"] = None


def _sentence(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    name = ".".join(str(part) for part in first["loc"]) or "a setting"
    what = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        return f"there is no setting `{name}`; remove it, or see docs/settings.md for its name"
    if first["type"] == "missing":
        return f"`{name}` is missing; add it, see docs/settings.md"
    return f"`{name}` is wrong: {what[:1].lower()}{what[1:]}; see docs/settings.md"
