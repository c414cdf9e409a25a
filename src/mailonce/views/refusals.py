"""Refusals as users see them."""

from collections.abc import Mapping
from dataclasses import dataclass

import orjson
from typing_extensions import TypedDict

from mailonce import providers
from mailonce.core.arrivals.provider import Codes, Provider
from mailonce.core.arrivals.source import Source
from mailonce.core.moment import moment
from mailonce.core.signatures.refusal import (
    NO_SOURCE,
    NO_SOURCE_THEN,
    PATH,
    UNKNOWN,
    advice_of,
    advice_of_other_workspaces,
    code_of,
    is_final,
)
from mailonce.errors import MissingError
from mailonce.store.configuration import sources, workspaces
from mailonce.store.configuration.workspaces import DEFAULT
from mailonce.store.dialects.contract import Database, Tx
from mailonce.store.ledger import origins, refusals
from mailonce.store.ledger.refusals import RefusalCount, RefusalPosition
from mailonce.views.origins import Origins, source_id, source_name
from mailonce.views.paging import Page, PageQuery

MINUTE_MS = 60_000
# The variables of a server that give settings of its sources: by source, then by setting.
SourceVariables = Mapping[str, Mapping[str, str]]


class RefusalJson(TypedDict):
    """What was refused for one reason in one minute, with the first of them as a sample.

    Where no source has the name, it is what came in the ten minutes that `minute` begins.
    """

    source: str
    source_name: str | None
    reason: str
    # The HTTP status that the sender was answered with, and what can be done about it.
    status: int
    # Whether the provider sends such a webhook again; null where no source has the name.
    retried: bool | None
    advice: str
    minute: str
    count: int
    body_bytes: int
    # The address that the sample came from.
    peer: str | None
    # Where no source has the name: the path that the first of them was posted to.
    path: str | None
    headers: dict[str, str]
    sample: str


async def list_refusals(
    database: Database,
    workspace: str,
    page: PageQuery,
    *,
    source: str | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
    variables: SourceVariables | None = None,
    is_admin: bool = False,
) -> Page[RefusalJson]:
    """List refusals, the newest minute first; each process counts for itself.

    The minutes in which `since_ms` and `until_ms` lie are listed, too. `variables` are those of the
    server, for its advice. `is_admin`: who reads it may act in several workspaces, so that commands
    name theirs.
    """
    minutes = (
        None if since_ms is None else since_ms // MINUTE_MS,
        None if until_ms is None else -(-until_ms // MINUTE_MS),
    )
    below = page.position(RefusalPosition, int, str, str, bytes)

    def work(tx: Tx) -> _RefusalPage:
        known = origins.of_workspace(tx, workspace)
        id_ = _source_of(tx, workspace, known, source)
        rows = refusals.page(
            tx, workspace, source=id_, minutes=minutes, below=below, limit=page.limit + 1
        )
        names = workspaces.names_of_others(tx) if is_admin else {}
        elsewhere = origins.of_all(tx) if names else known
        return _RefusalPage(rows, known, elsewhere, names, sources.ids_in_file(tx))

    listing = await database.read(work)
    named = listing.names.get(workspace, "")
    return page.of(
        listing.rows,
        lambda row: _refusal_json(row, listing, variables=variables, workspace=named),
        lambda last: (last.minute, last.source, last.reason, last.process),
    )


@dataclass(frozen=True, slots=True)
class _RefusalPage:
    """A page of refusals, and what there is to name their sources."""

    rows: list[RefusalCount]
    origins: Origins
    # The sources of all workspaces, and the names of these, where the reader may act in them.
    elsewhere: Origins
    names: Mapping[str, str]
    in_file: frozenset[str]


def _source_of(tx: Tx, workspace: str, known: Origins, source: str | None) -> str | None:
    """Turn a source's name into its id; a name that only wrong URLs have stands for those.

    Raises: MissingError where it is neither.
    """
    try:
        return source_id(known, source)
    except MissingError:
        name = f"{UNKNOWN} {(source or '').removeprefix(UNKNOWN).strip()}"
        if not refusals.page(tx, workspace, source=name, below=None, limit=1):
            raise
        return name


def advice_for(
    reason: str,
    source: Source | None,
    *,
    is_in_file: bool,
    variables: SourceVariables | None,
    workspace: str = "",
) -> str:
    """Say what to do about a refusal, and whether its provider will send the same again.

    `workspace`: the one that commands have to name; '' where they need not.
    """
    name = None if source is None else source.name
    provider = _provider_of(source)
    is_lost = provider is not None and is_final(reason, provider)
    return advice_of(
        reason,
        name,
        is_in_file=is_in_file,
        variables=None if variables is None else variables.get(name or "", {}),
        lost_by=provider.title if provider is not None and is_lost else None,
        workspace=workspace,
    )


def made_since(origins: Origins, source: str, reason: str) -> Source | None:
    """Give the source that has the name now for which something came when no source had it."""
    if reason != NO_SOURCE:
        return None
    name = source.removeprefix(UNKNOWN).strip()
    return next((one for one in origins.values() if _is_posted_to(one, name)), None)


def advice_by_name(
    origins: Origins, names: Mapping[str, str], source: str, reason: str
) -> str | None:
    """Give the advice where other workspaces have a source of the name that was posted to.

    `names` are those of the workspaces that the reader may act in, by id; the others are left out.
    """
    if reason != NO_SOURCE:
        return None
    name = source.removeprefix(UNKNOWN).strip()
    ids = {
        names[one.workspace]: one.id
        for one in origins.values()
        if one.name == name and one.workspace in names
    }
    return advice_of_other_workspaces(ids) if ids else None


def _is_posted_to(source: Source, name: str) -> bool:
    return name == source.id or (source.workspace == DEFAULT and name == source.name)


def _provider_of(source: Source | None) -> Provider | None:
    return None if source is None else providers.find(source.provider)


def _refusal_json(
    row: RefusalCount, listing: _RefusalPage, *, variables: SourceVariables | None, workspace: str
) -> RefusalJson:
    known = listing.origins
    now = made_since(known, row.source, row.reason)
    source, reason = (known.get(row.source), row.reason) if now is None else (now, NO_SOURCE_THEN)
    provider = _provider_of(source)
    headers: dict[str, str] = orjson.loads(row.headers) if row.headers else {}
    codes = Codes() if provider is None else provider.codes
    return {
        "source": row.source,
        "source_name": source_name(known, row.source),
        "reason": row.reason,
        "status": code_of(row.reason, codes),
        "retried": None if provider is None else not is_final(row.reason, provider),
        "advice": advice_by_name(listing.elsewhere, listing.names, row.source, reason)
        or advice_for(
            reason,
            source,
            is_in_file=row.source in listing.in_file,
            variables=variables,
            workspace=workspace,
        ),
        "minute": moment(row.minute * MINUTE_MS),
        "count": row.count,
        "body_bytes": row.body_bytes,
        "peer": row.peer,
        "path": headers.pop(PATH, None),
        "headers": headers,
        "sample": row.sample.decode("utf-8", "replace"),
    }
