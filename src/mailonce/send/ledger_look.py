"""What the ledger knows of a request before it is submitted; many requests share a transaction."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
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

    sends: Mapping[Key, KnownSend]
    request: Fingerprint | None
    # By address.
    suppressed: Mapping[str, SuppressedStreams]
    template: MailTemplate | None


# What most requests are told.
_NOTHING = LedgerAnswer(MappingProxyType({}), None, MappingProxyType({}), None)


class LedgerLook:
    """Looks into the ledger for many requests at once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.ask: Gather[LedgerQuery, LedgerAnswer] = Gather(self._read)

    async def _read(self, queries: Sequence[LedgerQuery]) -> list[LedgerAnswer]:
        keys = [key for query in queries for key in query.keys]
        requests = [query.request for query in queries if query.request is not None]
        places = [place for query in queries for place in query.places]
        run = self._database.run_statement
        if run is None:
            return await self._database.read(
                lambda tx: _answers(
                    queries,
                    known.sends_of(tx, keys),
                    known.requests_of(tx, requests),
                    known.suppressed(tx, places),
                    _templates(tx, queries),
                )
            )
        taken = await known.look(run, keys, requests, places)
        suppressed: dict[Place, SuppressedStreams] = {}
        of_templates: dict[int, MailTemplate] = {}
        if taken.places or any(query.template is not None for query in queries):
            suppressed, of_templates = await self._database.read(
                lambda tx: (known.suppressed(tx, taken.places), _templates(tx, queries))
            )
        return _answers(queries, taken.sends, taken.requests, suppressed, of_templates)


def _answers(
    queries: Sequence[LedgerQuery],
    sends: Mapping[Key, KnownSend],
    requests: Mapping[Key, Fingerprint],
    suppressed: Mapping[Place, SuppressedStreams],
    of_templates: Mapping[int, MailTemplate],
) -> list[LedgerAnswer]:
    """Give each request what concerns it; templates are known by the place of their request."""
    if not (sends or requests or suppressed or of_templates):
        return [_NOTHING] * len(queries)
    return [
        LedgerAnswer(
            {key: sends[key] for key in query.keys if key in sends},
            None if query.request is None else requests.get(query.request),
            {place[1]: suppressed[place] for place in query.places if place in suppressed},
            of_templates.get(number),
        )
        for number, query in enumerate(queries)
    ]


def _templates(tx: Tx, queries: Sequence[LedgerQuery]) -> dict[int, MailTemplate]:
    templates_of = ((number, _template(tx, query)) for number, query in enumerate(queries))
    return {number: template for number, template in templates_of if template is not None}


def _template(tx: Tx, query: LedgerQuery) -> MailTemplate | None:
    if query.template is None:
        return None
    name, version = query.template
    if version is None:
        return templates.newest(tx, query.workspace, name)
    return templates.version_of(tx, query.workspace, name, version)
