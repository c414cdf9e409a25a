"""The tables of sends, senders and templates; a send's row is also the work of sending it."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Table, func, literal

from mailonce.core.sends.send_lifecycle import SendState, after_expiry, after_lost_lease
from mailonce.store.schema.tables import (
    METADATA,
    attempt_columns,
    columns_of,
    table_of,
    work_columns,
)
from mailonce.store.schema.work_table import WorkTable

EXPIRED = "its time was over before it was sent"

SENDERS = table_of(
    "senders",
    """
    id text key, workspace text, name text, provider text, settings bytes, sealed bytes,
    origin text, off text null, off_ms bigint null, created_ms bigint
    """,
)

# `body` is the frozen request of a call that may be repeated. `flight` is the attempt that made the
# last call, `flight_ms` when the call began whose outcome is unknown, `proof` the event that told.
# `done_ms` is NULL until it is settled.
SENDS = Table(
    "sends",
    METADATA,
    *work_columns("sender"),
    *columns_of(
        """
        id bytes, send_state smallint, flight integer, tries integer, is_repeat boolean,
        flight_ms bigint null, message_id text null, proof bytes null, content bytes,
        send_key text, fingerprint bytes, parts bytes, recipient text,
        address text, name text, stream text, template text null, template_version integer null,
        cause_id text null, is_forced boolean, is_resent boolean
        """
    ),
)

# Which mails the key of a request stands for.
SEND_REQUESTS = table_of(
    "send_requests", "key bytes key, workspace text, fingerprint bytes, made_ms bigint"
)

SEND_ATTEMPTS = Table(
    "send_attempts",
    METADATA,
    *attempt_columns("send"),
    *columns_of("step text null, outcome text null, sender text null, message_id text null"),
)

# What is sent, once for all recipients of a request.
SEND_CONTENTS = table_of(
    "send_contents", "id bytes key, workspace text, body bytes, made_ms bigint"
)

# What people did to a send.
SEND_ACTS = table_of(
    "send_acts",
    "send bytes key, id bytes key, at_ms bigint, act text, by text, reason text null",
)

TEMPLATES = table_of(
    "templates",
    """
    workspace text key, name text key, version integer key, subject text, html text null,
    text text null, created_ms bigint
    """,
)


def _lost(row: Mapping[Any, Any]) -> dict[str, Any]:
    # Its lane is its priority, which it keeps.
    return {
        "send_state": after_lost_lease(SendState(row["send_state"])),
        "lane": row["lane"],
    }


def _expired(row: Mapping[Any, Any]) -> dict[str, Any]:
    state = after_expiry(SendState(row["send_state"]))
    if state is SendState.UNKNOWN:
        # It is not settled: a person, or an event, may still tell.
        return {"send_state": state, "done_ms": None}
    # What kept it until then is what an operator has to know.
    because = literal(f"{EXPIRED}: ") + SENDS.c.error
    return {"send_state": state, "error": func.coalesce(because, EXPIRED)}


SEND_TABLE = WorkTable(
    rows=SENDS,
    attempts=SEND_ATTEMPTS,
    lane="sender",
    row_of_attempt="send",
    columns=("workspace", "body"),
    phase="send_state",
    lost=_lost,
    expired=_expired,
    times=("flight_ms",),
)
