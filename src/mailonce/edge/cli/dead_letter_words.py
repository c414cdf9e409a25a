"""A dead letter in words: why it was given up, how it ended, and what can be done."""

from collections.abc import Sequence
from typing import Any

from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.removed_routes import name_removed_routes, removed_words

# The reasons of deliveries and of mail; of an arrival it is a sentence already.
REASONS = {
    "attempts": "no attempt succeeded",
    "deadline": "its deadline passed before an attempt succeeded",
    "gone": "there is nothing left to send",
    "lease_lost": "the worker was lost at each attempt",
    "off": "its route was off for a whole window",
    "permanent": "the answer is final",
    "refused": "the address is not allowed",
    "route_deleted": "its route was removed",
    "unroutable": "the route cannot decide about it",
}
# The newest changes of one letter: it may have been retried without success before.
AUDIT_ROWS = 20
RETRY = "POST /v1/dead-letters/{letter_id}/retry"
# What can be done; by the kind where the reason does not tell.
FINAL = "it cannot be sent again"
_RETRY = "then `mailonce dead retry {id}`"
REMEDIES = {
    "gone": FINAL,
    "off": f"`mailonce route on {{route}}`, {_RETRY}",
    "refused": f"allow the host (net.allow_hosts) or correct the endpoint, {_RETRY}",
    "unroutable": "correct the route, then `mailonce reprocess --route {route} --since …`",
    "delivery": f"repair the endpoint (`mailonce route test {{route}}` tries it), {_RETRY}",
    "arrival": f"correct the source (`mailonce source show {{source}}`) or update, {_RETRY}",
    "mail": f"update mailonce, {_RETRY}",
}


async def complete(client: ApiSession, letters: Sequence[Any]) -> None:
    """Write beside letters what people want to read of them."""
    if not letters:
        return
    names = {one["id"]: one["name"] for one in (await client.get("routes"))["data"]}
    for letter in letters:
        letter["route_name"] = names.get(letter["route"])
    await name_removed_routes(client, letters)
    for letter in letters:
        letter["why"] = _why(letter)
        letter["how"] = how(letter)
        letter["next"] = _next_step(letter)


async def add_retrier(client: ApiSession, letter: Any) -> None:
    """Say of a letter that was retried who asked for that, as the audit has it."""
    if letter["resolution"] != "retried":
        return
    # A server of before has no audit log.
    log = await client.find("audit", object=letter["id"], limit=AUDIT_ROWS) or {"data": []}
    retry = next((one for one in log["data"] if one["operation"] == RETRY), None)
    if retry is None:
        # Of many at once, the audit names the redelivery.
        letter["how"] = "retried; `mailonce audit` has no retry of it alone, maybe a redelivery"
    else:
        letter["how"] = f"retried by {retry['by_name'] or retry['by']}"


def how(letter: Any) -> str | None:
    """Say how it was resolved and, of a dismissal, by whom and why."""
    if letter["dismissed_by"] is None:
        return letter["resolution"] and str(letter["resolution"])
    by = letter["dismissed_by_name"] or letter["dismissed_by"]
    return f"dismissed by {by}: {letter['dismissed_because'] or 'no reason given'}"


def is_deleted(letter: Any) -> bool:
    """Say whether nothing is left to send, since the mail of a delivery was deleted."""
    return letter["kind"] == "delivery" and not letter["raw_bytes"]


def _why(letter: Any) -> str:
    """Say why it was given up; of a delivery, also what the last attempt met."""
    reason, error = REASONS.get(letter["reason"], letter["reason"]), letter["last_error"]
    if letter["reason"] == "gone" and error is not None:
        # It says what is gone, and why.
        return str(error)
    return reason if error is None or error in reason else f"{reason}: {error}"


def _next_step(letter: Any) -> str | None:
    """Say what can be done about one that is open."""
    if letter["resolved_at"] is not None:
        return None
    reason = "gone" if is_deleted(letter) else letter["reason"]
    remedy = REMEDIES.get(reason, REMEDIES[letter["kind"]])
    otherwise = "close it:" if remedy is FINAL else "or"
    if remedy is not FINAL and letter.get("route_removed"):
        # Its name may have braces, too.
        return f"{removed_words(letter)}; or `mailonce dead dismiss {letter['id']} --reason …`"
    named = remedy.format(
        id=letter["id"], route=letter["route_name"], source=letter["source_name"] or "NAME"
    )
    return f"{named}; {otherwise} `mailonce dead dismiss {letter['id']} --reason …`"
