"""Where events come from: names for sources, also for those that were deleted."""

from collections.abc import Mapping

from mailonce import providers
from mailonce.core.arrivals.source import Source

Origins = Mapping[str, Source]

# Mail that comes over SMTP has no source of anybody's: its events name the door, and this account.
MAIL_SOURCE = "smtp"
MAIL_DOOR = "smtp/door"


def source_id(origins: Origins, id_or_name: str | None) -> str | None:
    """Turn a source's name into its id; an id stays, even that of a deleted source."""
    if id_or_name is None or id_or_name in origins:
        return id_or_name
    return next((origin.id for origin in origins.values() if origin.name == id_or_name), id_or_name)


def source_name(origins: Origins, source: str) -> str | None:
    """Name a source; None where it was deleted."""
    known = origins.get(source)
    return None if known is None else known.name


def account_of(origins: Origins, id_or_name: str | None) -> str | None:
    """Name the account of a source as facts and events do; None where the source is unknown."""
    id_ = source_id(origins, id_or_name)
    source = origins.get(id_ or "")
    if source is None and id_ == MAIL_SOURCE:
        return MAIL_DOOR
    return None if source is None else providers.account_of(source)
