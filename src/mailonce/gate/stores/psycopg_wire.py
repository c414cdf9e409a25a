"""Texts of several statements, which no cursor of psycopg sends together with BEGIN or COMMIT."""

from typing import Any

import psycopg
from psycopg import AsyncConnection, Connection, generators
from psycopg.abc import PQGen
from psycopg.pq import ExecStatus


def begins_plainly(connection: "Connection[Any] | AsyncConnection[Any]") -> bool:
    """Say whether a BEGIN without more words is what psycopg itself would send."""
    return (
        connection.isolation_level is None
        and connection.read_only is None
        and connection.deferrable is None
    )


def sending(connection: "Connection[Any] | AsyncConnection[Any]", text: str) -> PQGen[str]:
    """Send a text of several statements; give what PostgreSQL calls the outcome of the last.

    Raises: psycopg.Error.
    """
    wire, encoding = connection.pgconn, connection.info.encoding
    wire.send_query(text.encode(encoding))
    last = (yield from generators.execute(wire))[-1]
    if last.status not in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK):
        raise psycopg.errors.error_from_result(last, encoding=encoding)
    return (last.command_status or b"").decode()
