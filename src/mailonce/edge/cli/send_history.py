"""What came before the state that a send has now: each hand-over, and what people did."""

from collections.abc import Iterable
from typing import Any

from mailonce.edge.cli.client import ApiSession

# What people do to sends, as the evidence names it.
ACTS = {
    "cancelled": "cancelled",
    "resolved_sent": "resolved as sent",
    "resolved_not_sent": "resolved as not sent",
    "resent": "sent again",
}
# For each of so many a question is asked.
SENDS_MAX = 20


def send_state(send: Any) -> str:
    """Name the state of a send; its calls tell nothing, as a second hand-over begins at 1."""
    return f"{send['state']}, sent again" if send["resent"] else str(send["state"])


async def histories(client: ApiSession, entries: Iterable[Any]) -> list[dict[str, Any]]:
    """Give the rows of the sends in a timeline: what came before the state that each has now."""
    rows = []
    sends = [one for one in entries if one["kind"] == "send"]
    for one in sends[:SENDS_MAX]:
        # It may be forgotten between two questions.
        if (stored := await client.find("sends", one["id"])) is not None:
            rows += history(stored)
    return rows


def history(send: Any) -> list[dict[str, Any]]:
    """Give what came before the state that a send has now: lost outcomes, and what people did."""
    lost = [
        {"when": step["at"], "what": "send unknown", "detail": step["reason"]}
        for step in send["attempts"]
        if step["outcome"] == "unknown" or step["step"] == "lost"
    ]
    # The last one made the state that it has now.
    accepted = [
        {"when": step["at"], "what": "send accepted", "detail": f"attempt {step['attempt']}"}
        for step in send["attempts"]
        if step["outcome"] == "accepted"
    ][:-1]
    acts = [
        {"when": one["at"], "what": ACTS[one["kind"]], "detail": _who_and_why(one)}
        for one in send["evidence"]
        if one["kind"] in ACTS
    ]
    return sorted([*lost, *accepted, *acts], key=lambda row: str(row["when"]))


def _who_and_why(act: Any) -> str:
    who = f"by {act['by_name'] or act['by']}"
    return f"{who}: {act['reason']}" if act["reason"] else who
