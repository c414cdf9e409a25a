"""Who had deliveries sent again, and when: beside each in a timeline."""

from collections.abc import Sequence
from typing import Any

from mailonce.core.deliveries.rerun import RerunKind
from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.dead_letter_words import RETRY

# About each of so many reruns and dead letters a question is asked.
ASKED_MAX = 20
AUDIT_ROWS = 20
WORDS = {RerunKind.REDELIVERY: "redelivered", RerunKind.REPROCESSING: "reprocessed"}


async def add_reruns(client: ApiSession, deliveries: Sequence[Any]) -> None:
    """Write as `sent_again` of deliveries the rows that say who had them sent again last."""
    # A server of before does not tell it.
    again = [one for one in deliveries if one.get("redelivery") or one.get("reprocessing")]
    rows: dict[str, Any] = {}
    for kind in RerunKind:
        ids = dict.fromkeys(one[kind.value] for one in again if one[kind.value])
        for id_ in list(ids)[:ASKED_MAX]:
            rows[id_] = await _rerun_row(client, kind, id_)
    for one in again:
        of = [one["reprocessing"], one["redelivery"]]
        one["sent_again"] = [_of(one, rows[id_]) for id_ in of if id_ in rows]
    retries = [one for one in deliveries if one.get("redeliveries") and not one.get("redelivery")]
    for one in retries[:ASKED_MAX]:
        of_letter = [_of(one, row) for row in await _retry_rows(client, one)]
        one["sent_again"] = [*one.get("sent_again", []), *of_letter]


def _of(delivery: Any, row: Any) -> Any:
    return row | {"what": f"→ {delivery['route_name'] or delivery['route']}: {row['what']}"}


async def _rerun_row(client: ApiSession, kind: RerunKind, id_: str) -> Any:
    # It may be forgotten meanwhile.
    rerun = await client.find(kind.plural, id_) or {"created_at": None}
    who = await _who(client, id_, f"POST /v1/{kind.plural}")
    return {"when": rerun["created_at"], "what": WORDS[kind], "detail": who, "id": id_}


async def _retry_rows(client: ApiSession, delivery: Any) -> list[Any]:
    """Say who retried the last dead letter of a delivery; none where that was forgotten."""
    page = await client.find("dead-letters", delivery=delivery["id"], resolved="true", limit=1)
    return [
        {
            "when": one["resolved_at"],
            "what": "retried",
            "detail": await _who(client, one["id"], RETRY),
            "id": one["id"],
        }
        for one in (page or {"data": []})["data"]
        if one["resolution"] == "retried"
    ]


async def _who(client: ApiSession, object_: str, operation: str) -> str | None:
    # A server of before has no audit log.
    log = await client.find("audit", object=object_, limit=AUDIT_ROWS) or {"data": []}
    entry = next((one for one in log["data"] if one["operation"] == operation), None)
    return None if entry is None else f"by {entry['by_name'] or entry['by']}"
