"""Where events come from: names for sources, also for those that were deleted."""

from collections.abc import Mapping

from mailonce import providers
from mailonce.core.arrivals.source import SMTP, SMTP_ACCOUNT, Source
from mailonce.core.missing_name import missing_name

Origins = Mapping[str, Source]


def source_id(origins: Origins, id_or_name: str | None) -> str | None:
    """Turn a source's name into its id; an id stays, even that of a deleted source.

    Raises: MissingError where it is neither: an empty list would say that all is well.
    """
    if id_or_name is None or id_or_name in origins:
        return id_or_name
    named = next((origin.id for origin in origins.values() if origin.name == id_or_name), None)
    if named is None and id_or_name != SMTP and not id_or_name.startswith("src_"):
        raise missing_name("source", id_or_name, (one.name for one in origins.values()))
    return named or id_or_name


def source_name(origins: Origins, source: str) -> str | None:
    """Name a source; None where it was deleted."""
    known = origins.get(source)
    return None if known is None else known.name


def account_of(origins: Origins, id_or_name: str | None) -> str | None:
    """Name the account of a source as facts and events do; None where the source is unknown."""
    id_ = source_id(origins, id_or_name)
    source = origins.get(id_ or "")
    if source is None and id_ == SMTP:
        return SMTP_ACCOUNT
    return None if source is None else providers.account_of(source)
