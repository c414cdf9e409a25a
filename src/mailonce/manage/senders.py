"""Senders: how mail goes out; made, changed, switched and removed."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from mailonce.core.access import Caller
from mailonce.core.ids import public
from mailonce.core.missing_name import missing_name
from mailonce.core.nearest_name import did_you_mean
from mailonce.core.record_origin import API, NOT_IN_FILE, off_when_put, origin_when_put
from mailonce.core.sends.dev_sender import NAME as DEV
from mailonce.core.sends.dev_sender import dev_sender, is_dev
from mailonce.core.sends.sender import Sender
from mailonce.core.sends.sender_check import troubles_of_sender
from mailonce.core.signatures.sealing import UNREADABLE
from mailonce.errors import ConfigError, RefusedError
from mailonce.manage.managing import Change, Parts, taken_name, too_many
from mailonce.manage.records import MissingSettingError, sender_of
from mailonce.providers import sending
from mailonce.settings import SenderSettings
from mailonce.store.audit import name_object
from mailonce.store.configuration import locks, senders
from mailonce.store.dialects.contract import Tx
from mailonce.store.sends import pages

SENDERS_MAX = 50
# A chain of senders, each of which takes over from the one before.
CHAIN_MAX = 5


@dataclass(frozen=True, slots=True)
class Senders:
    """The senders of every workspace; a change is seen by every process within a second."""

    parts: Parts

    def list_of(self, caller: Caller) -> list[Sender]:
        """List the senders of the caller's workspace, the default first."""
        known = self.parts.configuration.snapshot.senders.values()
        return [sender for sender in known if sender.workspace == caller.workspace]

    def find(self, caller: Caller, id_or_name: str) -> Sender:
        """Find a sender of the caller's workspace.

        Raises: MissingError.
        """
        sender = self.parts.configuration.snapshot.find_sender(caller.workspace, id_or_name)
        if sender is None:
            raise missing_name("sender", id_or_name, (one.name for one in self.list_of(caller)))
        return sender

    def id_of(self, caller: Caller, id_or_name: str | None) -> str | None:
        """Turn a sender's name into its id; an id stays, even that of a deleted sender.

        Raises: MissingError where it is neither: an empty list would say that nothing was sent.
        """
        if id_or_name is None or is_dev(id_or_name) or id_or_name.startswith("snr_"):
            return id_or_name
        if id_or_name == DEV and all(one.name != DEV for one in self.list_of(caller)):
            return dev_sender(caller.workspace).id
        return self.find(caller, id_or_name).id

    async def make(self, caller: Caller, name: str, settings: SenderSettings) -> Sender:
        """Make a sender; raises what `put` does."""
        name_object(name)
        id_ = public("snr", self.parts.clock.new_id())
        sender = sender_of(name, settings, workspace=caller.workspace, id_=id_)
        return await self.put(sender, origin=API)

    async def change(
        self, caller: Caller, id_or_name: str, settings: SenderSettings
    ) -> Change[Sender]:
        """Give a sender other settings; raises what `put` does."""
        known = self.find(caller, id_or_name)
        sender = sender_of(known.name, settings, workspace=known.workspace, id_=known.id)
        return await self.parts.change_record(self.prepare(sender, origin=API, must_exist=True))

    async def put(self, sender: Sender, *, origin: str, must_exist: bool = False) -> Sender:
        """Make or change a sender, after checking that it can work.

        Credentials stay unless new ones are given, as they stand in the transaction that writes.
        Raises: ConfigError with what is wrong, ClashError where the name is taken, MissingError.
        """
        return await self.parts.put(self.prepare(sender, origin=origin, must_exist=must_exist))

    def prepare(
        self,
        sender: Sender,
        *,
        origin: str,
        must_exist: bool = False,
        beside: Iterable[Sender] = (),
    ) -> Callable[[Tx], tuple[Sender, bool]]:
        """Give what puts a sender; that also says whether it changed anything.

        `beside` are put in the same transaction: the chain is judged with them as they will be.
        Raises: as `put` does, when it runs.
        """
        now_ms = self.parts.clock.now_ms()
        sealer, chance = self.parts.sealer, self.parts.clock.chance

        def work(tx: Tx) -> tuple[Sender, bool]:
            locks.take(tx, locks.CONFIGURATION)
            known = senders.get(tx, sender.id, sealer)
            _check_place(tx, sender, known, must_exist=must_exist)
            wanted = sender if known is None else _with_credentials(sender, known)
            check_sender(wanted)
            known_by_id = {one.id: one for one in (*senders.list_all(tx, sealer), *beside)}
            in_workspace = (o for o in known_by_id.values() if o.workspace == wanted.workspace)
            check_chain(wanted, {one.name: one.next_sender for one in in_workspace})
            stored = senders.origin_of(tx, wanted.id)
            owner = origin_when_put(origin, stored=stored, off=None if known is None else known.off)
            if wanted == known and stored == owner:
                return wanted, False
            senders.put(tx, wanted, sealer, origin=owner, now_ms=now_ms, chance=chance)
            if wanted.off is None:
                senders.switch(tx, wanted.id, off=None, now_ms=now_ms)
            return wanted, True

        return work

    async def remove(self, caller: Caller, id_or_name: str) -> None:
        """Delete a sender, which must have nothing left to send.

        Raises: MissingError, RefusedError while mails of it are not settled.
        """
        sender = self.find(caller, id_or_name)

        def work(tx: Tx) -> None:
            left = pages.count_unsettled(tx, sender.id)
            if left:
                raise RefusedError(
                    f"sender {sender.name!r} has {left} mails that are not settled; "
                    "wait for them, cancel or resolve them first"
                )
            senders.remove(tx, caller.workspace, sender.id)

        await self.parts.change(work)

    async def switch(self, caller: Caller, id_or_name: str, *, off: str | None) -> Sender:
        """Switch a sender off for a reason, or on again; its mails wait meanwhile.

        One that the settings file no longer has, and that is switched on, is no longer the file's.
        """
        sender = self.find(caller, id_or_name)
        now_ms = self.parts.clock.now_ms()

        def work(tx: Tx) -> None:
            if off is None and sender.off == NOT_IN_FILE:
                senders.adopt(tx, sender.id, origin=API)
            senders.switch(tx, sender.id, off=off, now_ms=now_ms)

        await self.parts.change(work)
        return self.find(caller, sender.id)


def check_sender(sender: Sender) -> None:
    """Check that a sender can work.

    Raises: ConfigError, one sentence that names what is wrong and the fix.
    """
    of_provider = sending.find(sender.provider)
    if of_provider is None:
        names = sending.names()
        advice = did_you_mean(sender.provider, names, otherwise=f"use one of {', '.join(names)}")
        given = f"`provider` {sender.provider[:80]!r}"
        raise ConfigError(f"sender {sender.name[:80]!r}: {given} cannot send; {advice}")
    trouble = next(troubles_of_sender(sender, of_provider), None)
    if trouble is not None:
        is_missing = not all(getattr(sender, name) for name in of_provider.needs)
        kind = MissingSettingError if is_missing else ConfigError
        raise kind(f"sender {sender.name[:80]!r}: {trouble}")


def _check_place(tx: Tx, sender: Sender, known: Sender | None, *, must_exist: bool) -> None:
    if known is None and must_exist:
        raise missing_name("sender", sender.id)
    if senders.other_of_name(tx, sender) is not None:
        raise taken_name("sender", sender.name)
    if known is None and senders.count_of(tx, sender.workspace) >= SENDERS_MAX:
        raise too_many("sender", SENDERS_MAX)


def _with_credentials(sender: Sender, known: Sender) -> Sender:
    """Keep the credentials that stand, where none are given; and whether it is on."""
    wanted = replace(sender, off=off_when_put(known.off))
    if known.is_unreadable and not (sender.secrets or sender.password):
        raise ConfigError(f"sender {sender.name!r}: {UNREADABLE}")
    if known.provider != sender.provider:
        raise other_provider(sender, known.provider)
    return replace(
        wanted,
        secrets=sender.secrets or known.secrets,
        password=sender.password or (known.password if known.username == sender.username else ""),
    )


def other_provider(sender: Sender, stored: str) -> ConfigError:
    """Say that a sender has another provider than it is stored with."""
    return ConfigError(f"sender {sender.name!r} is one of {stored}, and stays so; make another one")


def check_chain(sender: Sender, next_senders: Mapping[str, str | None]) -> None:
    """See that the senders which take over from each other come to an end.

    `next_senders` has the names of those who take over, by the names of the workspace's senders.
    """
    names = [sender.name]
    following = sender.next_sender
    while following is not None:
        if following in names or len(names) >= CHAIN_MAX:
            chain = " → ".join([*names, following])
            raise ConfigError(f"sender {sender.name!r}: `next_sender` leads in a circle: {chain}")
        names.append(following)
        following = next_senders.get(following)
