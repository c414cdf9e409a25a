"""Unsubscribe with one click (RFC 8058): the link in a mail, and what its click records."""

from collections.abc import Awaitable, Callable
from functools import partial

import orjson

from mailonce.clock import Clock
from mailonce.core.events.event import Event, EventType, detail_of
from mailonce.core.events.key import Identity, KeyScope, Recipe, keys_of
from mailonce.core.events.suppression import Cause, standing
from mailonce.core.ids import ArrivalId, EventId, public
from mailonce.core.ledger.entry import Candidate, Entry
from mailonce.core.sends.unsubscribe_token import Unsubscription, read_token, token_of
from mailonce.core.signatures.sealing import Sealer
from mailonce.store.dialects.contract import Database, Tx
from mailonce.store.ledger import suppressions
from mailonce.store.ledger.suppressions import LiftTarget
from mailonce.store.sends.flights import SendJob

PATH = "/u/"
# What a click says comes from us, as an event of a source of its own.
SOURCE, PROVIDER, ACCOUNT = "unsubscribe", "mailonce", "unsubscribe"
RECIPE = Recipe(name="mailonce.unsubscribe", version=2, identity=("send", "at"))


class UnsubscribeLinks:
    """Makes links, and records their clicks."""

    def __init__(
        self,
        database: Database,
        sealer: Sealer,
        clock: Clock,
        record: Callable[[Entry], Awaitable[object]],
        *,
        base_url: str,
    ) -> None:
        self._database = database
        self._sealer = sealer
        self._clock = clock
        self._record = record
        self._base_url = base_url

    def link_of(self, send: SendJob) -> str:
        """Give the link of one recipient's mail; the same in every attempt."""
        wanted = Unsubscription(send.workspace, send.recipient, send.stream, bytes(send.id))
        return f"{self._base_url}{PATH}{token_of(self._sealer, wanted)}"

    def read(self, token: str) -> Unsubscription:
        """Read the token of a link.

        Raises: VerifyError where it is not one of ours.
        """
        return read_token(self._sealer, token)

    async def unsubscribe(self, token: str) -> Unsubscription:
        """Record that a recipient wants no more mail of a stream.

        Another click says nothing new, unless its reader has subscribed again meanwhile.
        Raises: VerifyError where the token is not one of ours, UnavailableError.
        """
        wanted = self.read(token)
        # What stands here may not yet stand on a standby, which a transaction that writes awaits.
        if not await self._database.write(partial(_is_unsubscribed, wanted=wanted)):
            await self._record(self._entry(wanted))
        return wanted

    def _entry(self, wanted: Unsubscription) -> Entry:
        now_ms = self._clock.now_ms()
        send = public("snd", wanted.send)
        event = Event(
            type=EventType.UNSUBSCRIBED,
            identity=Identity(RECIPE, {"send": send, "at": now_ms}),
            recipient=wanted.address,
            occurred_ms=now_ms,
            reason="one click",
            stream=wanted.stream,
            metadata={"send": send},
        )
        scope = KeyScope(wanted.workspace, PROVIDER, ACCOUNT)
        return Entry(
            id=ArrivalId(self._clock.new_id()),
            workspace=wanted.workspace,
            source=SOURCE,
            account=scope.path,
            arrival_key=f"{send}/{now_ms}",
            body=orjson.dumps({"type": "unsubscribed", "send": send, "stream": wanted.stream}),
            headers=b"{}",
            signs_body=True,
            events=(
                Candidate(
                    EventId(self._clock.new_id()),
                    event,
                    keys_of(scope, event.identity),
                    orjson.dumps(detail_of(event)),
                ),
            ),
        )


def _is_unsubscribed(tx: Tx, wanted: Unsubscription) -> bool:
    register = LiftTarget(wanted.stream, Cause.UNSUBSCRIBE)
    rows = suppressions.of_address(tx, wanted.workspace, wanted.address)
    return standing([row.statement for row in rows if row.register == register]) is not None
