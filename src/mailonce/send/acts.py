"""Acts of people on sends: cancel one, say what became of it, have it sent again; all kept."""

from dataclasses import dataclass, replace
from enum import StrEnum

from mailonce.clock import Clock
from mailonce.core.sends.send_lifecycle import SendAct, SendState
from mailonce.errors import ClashError, MissingError
from mailonce.queue.configuration import ConfigurationCache
from mailonce.queue.wake import Wakes
from mailonce.send.database_time import DatabaseTime
from mailonce.store.dialects.contract import Database, Tx
from mailonce.store.sends import acts, known, pages
from mailonce.store.sends.acts import PersonsAct
from mailonce.store.sends.pages import StoredSend


class SendWord(StrEnum):
    """What a person says of a send."""

    SENT = "sent"
    NOT_SENT = "not_sent"


@dataclass(frozen=True, slots=True)
class _Wish:
    """What somebody wants to become of a send."""

    act: SendAct
    word: str
    wanted: SendState
    # How to say that it cannot be.
    refusal: str
    # Whether there is nothing to do where it stands as wanted already.
    is_said_twice: bool = True


_CANCEL = _Wish(
    SendAct.CANCEL, "cancelled", SendState.CANCELLED,
    "only what is pending can be cancelled; see its state",
)  # fmt: skip
_SENT = _Wish(
    SendAct.PROVE, "resolved_sent", SendState.ACCEPTED,
    "only what is unknown can be resolved; see its state",
)  # fmt: skip
_NOT_SENT = _Wish(
    SendAct.REFUSE, "resolved_not_sent", SendState.REFUSED,
    "only what is unknown can be resolved; see its state",
)  # fmt: skip
_RESEND = _Wish(
    SendAct.RESEND, "resent", SendState.PENDING,
    "only what is refused, suppressed or unknown can be sent again; for a second mail send anew, "
    "under a new key", is_said_twice=False,
)  # fmt: skip
# Nothing is to be done for these, and a second mail would be the outcome.
_SENT_BY_ITSELF = {
    SendState.PENDING: "this send is pending and will be sent by itself; nothing was changed",
    SendState.IN_FLIGHT: "this send is being sent now; see its state in a moment, and send it "
    "again only if it was refused",
}


class SendActs:
    """What people do to sends.

    Invariant: an act counts only where the send still stands as the person saw it, and what was
    done, by whom and why is kept in the same transaction.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        time: DatabaseTime,
        configuration: ConfigurationCache,
        wakes: Wakes,
    ) -> None:
        self._database = database
        self._clock = clock
        self._time = time
        self._configuration = configuration
        self._wakes = wakes

    async def cancel(
        self, workspace: str, id_: bytes, *, by: str, reason: str | None = None
    ) -> StoredSend:
        """Keep a send from being sent; its key stays taken.

        Raises: MissingError, ClashError where it is too late.
        """
        return await self._act(workspace, id_, _CANCEL, by=by, reason=reason)

    async def resolve(
        self, workspace: str, id_: bytes, word: SendWord, *, by: str, reason: str | None = None
    ) -> StoredSend:
        """Say what became of a send that is unknown.

        Raises: MissingError, ClashError where it is not unknown.
        """
        wish = _SENT if word is SendWord.SENT else _NOT_SENT
        return await self._act(workspace, id_, wish, by=by, reason=reason)

    async def resend(
        self, workspace: str, id_: bytes, *, by: str, reason: str | None = None
    ) -> StoredSend:
        """Have a send sent again, from the beginning.

        Raises: MissingError, ClashError where it cannot be, is sent by itself, its address is
        suppressed, or its words are not kept any more.
        """
        send = await self._act(workspace, id_, _RESEND, by=by, reason=reason)
        self._wakes.owed([send.sender])
        return send

    async def _act(
        self, workspace: str, id_: bytes, wish: _Wish, *, by: str, reason: str | None
    ) -> StoredSend:
        now_ms = await self._time.now_ms()
        act = PersonsAct(
            id=self._clock.new_id(),
            act=wish.act,
            word=wish.word,
            by=by,
            reason=reason,
            now_ms=now_ms,
        )

        def work(tx: Tx) -> StoredSend:
            send = pages.get(tx, workspace, id_)
            if send is None:
                raise MissingError("there is no such send; see GET /v1/sends")
            if send.send_state is wish.wanted and wish.is_said_twice:
                return send
            if wish.act is SendAct.RESEND and send.send_state in _SENT_BY_ITSELF:
                raise ClashError(_SENT_BY_ITSELF[send.send_state])
            if wish.act is SendAct.RESEND and pages.content_of(tx, send.content) is None:
                raise ClashError("its words are not kept any more; send it as a new mail")
            if wish.act is SendAct.RESEND and (cause := _suppressed_by(tx, send)) is not None:
                raise ClashError(
                    f"its address is suppressed ({cause}); lift the suppression first, or the "
                    "mail is held back again"
                )
            is_unknown = send.send_state is SendState.UNKNOWN
            may = is_unknown or wish in (_CANCEL, _RESEND)
            deadline_ms = now_ms + self._deadline_s(send) * 1000
            wanted = _with_outcome(act, send) if wish is _RESEND else act
            if not may or not acts.apply(tx, send, wanted, deadline_ms=deadline_ms):
                state = send.send_state.word
                raise ClashError(f"this send is {state}, and {wish.refusal}")
            changed = pages.get(tx, workspace, id_)
            assert changed is not None, "it was changed in this transaction"
            return changed

        return await self._database.write(work)

    def _deadline_s(self, send: StoredSend) -> int:
        sender = self._configuration.snapshot.senders.get(send.sender)
        return 3_600 if sender is None else sender.deadline_s


def _with_outcome(act: PersonsAct, send: StoredSend) -> PersonsAct:
    """Keep what had become of a send that begins anew: its own row is about to forget it."""
    why = f" ({send.error})" if send.error else ""
    given = f"; {act.reason}" if act.reason else ""
    return replace(act, reason=f"it was {send.send_state.word}{why}{given}")


def _suppressed_by(tx: Tx, send: StoredSend) -> str | None:
    """Say why a mail would be held back again; None where it may be sent."""
    place = (send.workspace, send.recipient)
    streams = known.suppressed(tx, [place]).get(place)
    return None if send.is_forced or streams is None else streams.cause_for(send.stream)
