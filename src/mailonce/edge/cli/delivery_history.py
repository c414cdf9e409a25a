"""Who had deliveries sent again, and when: beside each in a timeline."""

from collections.abc import Sequence
from typing import Any

from mailonce.core.deliveries.rerun import RerunKind
from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.dead_letter_words import RETRY
from mailonce.edge.cli.show import moment

# About each of so many reruns and dead letters a question is asked.
ASKED_MAX = 20
AUDIT_ROWS = 20
WORDS = {RerunKind.REDELIVERY: "redelivered", RerunKind.REPROCESSING: "reprocessed"}


async def add_reruns(client: ApiSession, deliveries: Sequence[Any]) -> None:
    """Write as `sent_again` of deliveries who had them sent again last, and when."""
    # A server of before does not tell it.
    again = [one for one in deliveries if one.get("redelivery") or one.get("reprocessing")]
    words: dict[str, str] = {}
    for kind in RerunKind:
        ids = dict.fromkeys(one[kind.value] for one in again if one[kind.value])
        for id_ in list(ids)[:ASKED_MAX]:
            words[id_] = await _rerun_words(client, kind, id_)
    for one in again:
        of = [one["reprocessing"], one["redelivery"]]
        one["sent_again"] = [words.get(id_, id_) for id_ in of if id_]
    retried = [one for one in deliveries if one.get("redeliveries") and not one.get("redelivery")]
    for one in retried[:ASKED_MAX]:
        one["sent_again"] = [*one.get("sent_again", []), *await _retry_words(client, one)]


async def _rerun_words(client: ApiSession, kind: RerunKind, id_: str) -> str:
    rerun = await client.find(kind.plural, id_)
    if rerun is None:
        return f"{WORDS[kind]} by {id_}"
    who = await _who(client, id_, f"POST /v1/{kind.plural}")
    return f"{WORDS[kind]} {moment(rerun['created_at'])}{who} ({id_})"


async def _retry_words(client: ApiSession, delivery: Any) -> list[str]:
    """Say who retried the last dead letter of a delivery; none where that was forgotten."""
    page = await client.find("dead-letters", delivery=delivery["id"], resolved="true", limit=1)
    letters = [one for one in (page or {"data": []})["data"] if one["resolution"] == "retried"]
    return [
        f"retried {moment(one['resolved_at'])}{await _who(client, one['id'], RETRY)}"
        for one in letters
    ]


async def _who(client: ApiSession, object_: str, operation: str) -> str:
    # A server of before has no audit log.
    log = await client.find("audit", object=object_, limit=AUDIT_ROWS) or {"data": []}
    entry = next((one for one in log["data"] if one["operation"] == operation), None)
    return "" if entry is None else f" by {entry['by_name'] or entry['by']}"
