"""Servers that deliver, and deliveries owed by the thousand."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.acceptance import sql
from tests.acceptance.harness import SETTINGS, Server
from tests.endpoint import Endpoint

DUE, LEASED, DONE, DEAD = range(4)
SHARED = {"MAILONCE_MASTER_KEY": "shared by all servers"}


def make_server(
    folder: Path,
    database: str,
    endpoint: Endpoint,
    routes: Mapping[str, Mapping[str, Any]],
    **named: Any,
) -> Server:
    """A server with routes to the paths of an endpoint; `worker` are settings of its worker."""
    lines = [SETTINGS, f'[net]\nallow_hosts = ["{endpoint.host}"]']
    for name, fields in routes.items():
        lines.append(f"[routes.{name}]")
        given = {"url": endpoint.url(f"/{name}"), **fields}
        lines += [f"{field} = {json.dumps(value)}" for field, value in given.items()]
    lines.append("[worker]")
    lines += [f"{field} = {value}" for field, value in named.pop("worker", {}).items()]
    environment = {**SHARED, **named.pop("environment", {})}
    return Server(folder, database, settings="\n".join(lines), environment=environment, **named)


def worker_only(role: str = "worker") -> dict[str, str]:
    return {"MAILONCE_ROLES": json.dumps([role])}


def owe(url: str, routes: list[str], number: int, *, mark: str) -> None:
    """Owe `number` deliveries to each of the routes of PostgreSQL, and wake the workers."""
    now = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    names = ", ".join(f"'rte_{name}'" for name in routes)
    sql.query(
        url,
        f"""
        INSERT INTO deliveries (key, workspace, route, event, day, body, state, lane, due_ms,
            deadline_ms, made_ms, attempts, round_began, redeliveries, again, token)
        SELECT sha256(convert_to('{mark}|' || n || '|' || route, 'UTF8')), 'default', route, '', 0,
               convert_to('{{"number":"{mark}-' || n || '"}}', 'UTF8'), 0, 0, {now},
               {now} + 86400000, {now}, 0, 0, 0, false, 0
        FROM generate_series(1, {number}) AS n, unnest(ARRAY[{names}]) AS route
        """,
    )
    sql.query(url, "SELECT pg_notify('mailonce_owed', '*')::text")


def states(url: str, route: str = "") -> dict[int, int]:
    where = f"WHERE route = 'rte_{route}'" if route else ""
    rows = sql.query(url, f"SELECT state, count(*) FROM deliveries {where} GROUP BY state")
    return {row[0]: row[1] for row in rows}


def has_ended(url: str) -> bool:
    by_state = states(url)
    return bool(by_state) and not {DUE, LEASED} & set(by_state)


def metric(server: Server, name: str) -> float:
    text = server.api("/metrics").text
    return sum(
        float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name)
    )
