"""An arrival as users see it: what became of one webhook, by the id in its answer."""

from typing import NamedTuple

from typing_extensions import TypedDict

from mailonce.core.ids import private, public
from mailonce.core.inboxes.mail_items import MAIL_PREFIX
from mailonce.core.moment import moment
from mailonce.errors import MissingError
from mailonce.store.dialects.contract import Database, Tx
from mailonce.store.ledger import arrival_outcomes, arrivals, origins
from mailonce.store.ledger.arrival_outcomes import ArrivalOutcomes, CopiedElement, KeptMail
from mailonce.store.ledger.arrivals import StoredArrival
from mailonce.views.origins import Origins, source_name

# An arrival may hold thousands of events.
OUTCOMES_MAX = 1_000


class ArrivalMailJson(TypedDict):
    """A mail that an arrival brought; `inbox` is null where none took it."""

    id: str
    inbox: str | None
    # Null until it was read.
    message: str | None


class ArrivalCopyJson(TypedDict):
    """What was known already: the event that it is a copy of, or the mail and its message."""

    event: str | None
    mail: str | None
    message: str | None
    recognised_by: str


class ArrivalConflictJson(TypedDict):
    """Other content under the key of an event."""

    event: str
    reason: str


class ArrivalJson(TypedDict):
    """One webhook or mail that was received, and what was recorded of it."""

    id: str
    received_at: str
    source: str
    source_name: str | None
    # As it was answered: `accepted`, `duplicate`, `conflict`, `dead_letter` or `ignored`.
    status: str
    # The provider's id of the delivery, or a hash of its bytes.
    key: str
    bytes: int
    # Those that were new, by their ids; `copies` has what was not.
    events: list[str]
    copies: list[ArrivalCopyJson]
    conflicts: list[ArrivalConflictJson]
    mails: list[ArrivalMailJson]
    dead_letters: list[str]
    # Whether there is more of something than one answer holds.
    truncated: bool


class _ArrivalRecord(NamedTuple):
    arrival: StoredArrival
    outcomes: ArrivalOutcomes
    originals: dict[bytes, KeptMail]
    origins: Origins


async def show_arrival(database: Database, workspace: str, arrival_id: str) -> ArrivalJson:
    """Show what became of an arrival.

    Raises: MissingError where this workspace knows none of that id.
    """
    id_ = private("arr", arrival_id)

    def work(tx: Tx) -> _ArrivalRecord | None:
        arrival = arrivals.get(tx, workspace, id_)
        if arrival is None:
            return None
        outcomes = arrival_outcomes.find(tx, workspace, id_, limit=OUTCOMES_MAX + 1)
        copied = [one.original for one in outcomes.copies if one.position < 0]
        originals = arrival_outcomes.mails_of(tx, workspace, copied) if copied else {}
        return _ArrivalRecord(arrival, outcomes, originals, origins.of_workspace(tx, workspace))

    known = await database.read(work)
    if known is None:
        raise MissingError(
            f"there is no arrival {arrival_id!r}: it was pruned (`window_days`), or "
            "another workspace or server received it; see GET /v1/events"
        )
    return _arrival_json(known)


def _arrival_json(known: _ArrivalRecord) -> ArrivalJson:
    arrival, outcomes = known.arrival, known.outcomes
    return {
        "id": public("arr", arrival.id),
        "received_at": moment(arrival.received_ms),
        "source": arrival.source,
        "source_name": source_name(known.origins, arrival.source),
        "status": arrival.status,
        "key": arrival.arrival_key,
        "bytes": arrival.body_bytes,
        "events": [public("evt", one) for one in outcomes.events[:OUTCOMES_MAX]],
        "copies": [_copy_json(one, known.originals) for one in outcomes.copies[:OUTCOMES_MAX]],
        "conflicts": [
            {"event": public("evt", one.event), "reason": one.reason}
            for one in outcomes.conflicts[:OUTCOMES_MAX]
        ],
        "mails": [_mail_json(one) for one in outcomes.mails[:OUTCOMES_MAX]],
        "dead_letters": [public("dead", one) for one in outcomes.dead_letters[:OUTCOMES_MAX]],
        "truncated": any(len(some) > OUTCOMES_MAX for some in outcomes),
    }


def _copy_json(copy: CopiedElement, originals: dict[bytes, KeptMail]) -> ArrivalCopyJson:
    if copy.position >= 0:
        event = public("evt", copy.original)
        return {"event": event, "mail": None, "message": None, "recognised_by": copy.recognised_by}
    mail = originals.get(bytes(copy.original))
    return {
        "event": None,
        "mail": public(MAIL_PREFIX, copy.original),
        "message": None if mail is None else mail.message,
        "recognised_by": copy.recognised_by,
    }


def _mail_json(mail: KeptMail) -> ArrivalMailJson:
    return {
        "id": public(MAIL_PREFIX, mail.key),
        "inbox": None if mail.seq is None else mail.inbox,
        "message": mail.message,
    }
