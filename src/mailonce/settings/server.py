"""Settings of the server: its limits, the HTTP door, the worker and outgoing calls."""

from pathlib import Path
from typing import Any

from pydantic import Field

from mailonce.settings.part import SettingsPart


class NetSettings(SettingsPart):
    """Outgoing calls."""

    allow_hosts: list[str] = Field(
        default=[], description="private or loopback hosts that outgoing calls may reach"
    )
    hosts: dict[str, str] = Field(
        default={}, description="host = 'ip:port': where calls to that host go instead"
    )
    ca_file: Path | None = Field(
        default=None,
        description="PEM file with certificate authorities that outgoing calls trust, "
        "besides the system's",
    )
    nameservers: list[str] = Field(
        default=[], description="`address` or `address:port` for MX records; default: the machine's"
    )
    trusted_proxies: list[str] = Field(
        default=[], description="proxies whose X-Forwarded-For is believed"
    )

    def of_client(self) -> dict[str, Any]:
        """Give what the client of outgoing calls is made with."""
        return self.model_dump(include={"allow_hosts", "hosts", "ca_file"})


class WorkspaceSettings(SettingsPart):
    """Settings of one workspace."""

    suppress: list[str] = Field(description="which events suppress an address; see status.md")


class LimitSettings(SettingsPart):
    """Limits on what is held in memory."""

    body_bytes_max: int = Field(default=10 << 20, ge=1024, description="body of POST /in/…")
    mail_bytes_max: int = Field(
        default=40 << 20,
        ge=1024,
        description="body of POST /in/… where the source's provider hands over mail; "
        "no more than `door.held_bytes_max`",
    )
    queue_events_max: int = Field(
        default=20_000,
        ge=1,
        description="events that wait to be committed; above it, senders are asked to retry",
    )
    queue_bytes_max: int = Field(default=128 << 20, ge=1024, description="their bytes, likewise")
    source_events_max: int = Field(
        default=10_000, ge=1, description="events of one source among them, likewise"
    )
    batch_events_max: int = Field(
        default=500, ge=1, description="events of one commit; a larger body has one of its own"
    )
    arrival_events_max: int = Field(
        default=5_000, ge=1, description="events of one body; a larger one is refused with 413"
    )
    batch_bytes_max: int = Field(default=8 << 20, ge=1024, description="bytes of one commit")
    flushers: int = Field(
        default=1, ge=1, le=8, description="commits at once on PostgreSQL; SQLite has one writer"
    )


class DoorSettings(SettingsPart):
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
    unread_bytes_max: int = Field(
        default=128 << 20,
        ge=1 << 20,
        description="answers that clients have not read yet, over all connections; who has left "
        "one unread for longest makes room",
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


class WorkerSettings(SettingsPart):
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
