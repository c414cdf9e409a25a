"""What the ledger knows of a request before it is submitted; many requests share a transaction."""

from collections.abc import Sequence
from typing import NamedTuple

from mailonce.core.events.key import Fingerprint, Key
from mailonce.core.sends.mail_template import MailTemplate
from mailonce.send.gather import Gather
from mailonce.store.dialects.contract import Database, Tx
from mailonce.store.sends import known, templates
from mailonce.store.sends.known import KnownSend, Place, SuppressedStreams


class LedgerQuery(NamedTuple):
    """What one request must know."""

    workspace: str
    keys: tuple[Key, ...]
    # None where the key was derived.
    request: Key | None
    addresses: tuple[str, ...]
    # A template's name, and the version if one is named.
    template: tuple[str, int | None] | None

    @property
    def places(self) -> list[Place]:
        return [(self.workspace, address) for address in self.addresses]


class LedgerAnswer(NamedTuple):
    """Sends that hold the request's keys, whom not to send to, and the template."""

    sends: dict[Key, KnownSend]
    request: Fingerprint | None
    # By address.
    suppressed: dict[str, SuppressedStreams]
    template: MailTemplate | None


class LedgerLook:
    """Looks into the ledger for many requests at once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.ask: Gather[LedgerQuery, LedgerAnswer] = Gather(self._read)

    async def _read(self, queries: Sequence[LedgerQuery]) -> list[LedgerAnswer]:
        def work(tx: Tx) -> list[LedgerAnswer]:
            sends = known.sends_of(tx, [key for query in queries for key in query.keys])
            requests = known.requests_of(
                tx, [query.request for query in queries if query.request is not None]
            )
            suppressed = known.suppressed(tx, [one for query in queries for one in query.places])
            return [
                LedgerAnswer(
                    {key: sends[key] for key in query.keys if key in sends},
                    None if query.request is None else requests.get(query.request),
                    {place[1]: suppressed[place] for place in query.places if place in suppressed},
                    _template(tx, query),
                )
                for query in queries
            ]

        return await self._database.read(work)


def _template(tx: Tx, query: LedgerQuery) -> MailTemplate | None:
    if query.template is None:
        return None
    name, version = query.template
    if version is None:
        return templates.newest(tx, query.workspace, name)
    return templates.version_of(tx, query.workspace, name, version)
