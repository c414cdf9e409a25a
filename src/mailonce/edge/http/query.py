"""Query parameters of the API; an error says which values are allowed.

Parameters come in as text, because FastAPI's own complaint about a wrong number or word is a
list of internals; the schema still tells the type.
"""

import re
from typing import Annotated, Any

from fastapi import Depends, Query

from mailonce.core.events.event import EventType
from mailonce.core.events.suppression import Cause
from mailonce.core.reading.values import iso_ms_of, text_of
from mailonce.errors import ParseError
from mailonce.views.paging import LIMIT_DEFAULT, LIMIT_MAX, PageQuery

# In a query a bare + means a space, which is how most zones arrive.
_LOST_PLUS = re.compile(r"(T.*) (\d\d:?\d\d)$")

NUMBER: dict[str, Any] = {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX}
FLAG: dict[str, Any] = {"type": "boolean"}
TIME: dict[str, Any] = {"format": "date-time"}


def read_page(
    limit: Annotated[str, Query(description="How many at most.", json_schema_extra=NUMBER)] = str(
        LIMIT_DEFAULT
    ),
    cursor: Annotated[
        str | None, Query(description="`next` of the page before; leave it out to begin.")
    ] = None,
) -> PageQuery:
    """Read the page's limit and cursor."""
    if not (limit.isascii() and limit.isdecimal() and 1 <= int(limit[:9]) <= LIMIT_MAX):
        raise ParseError(f"`limit` is {limit[:20]!r}; use a whole number from 1 to {LIMIT_MAX}")
    return PageQuery(int(limit), cursor)


def read_type(
    type_: Annotated[
        str | None,
        Query(
            alias="type",
            description="The type of event.",
            json_schema_extra={"enum": [one.value for one in EventType]},
        ),
    ] = None,
) -> EventType | None:
    """Read the type of event."""
    if type_ is None:
        return None
    try:
        return EventType(type_)
    except ValueError as error:
        known = ", ".join(EventType)
        raise ParseError(f"`type` is {type_[:40]!r}; use one of {known}") from error


def read_cause(
    cause: Annotated[
        str | None,
        Query(
            description="Lift this cause alone.",
            json_schema_extra={"enum": [one.value for one in Cause]},
        ),
    ] = None,
) -> Cause | None:
    """Read a suppression's cause."""
    if cause is None:
        return None
    try:
        return Cause(cause)
    except ValueError as error:
        raise ParseError(f"`cause` is {cause[:40]!r}; use one of {', '.join(Cause)}") from error


def read_source(
    source: Annotated[str | None, Query(description="A source, by its id or its name.")] = None,
) -> str | None:
    """Read a source's id or name, as text that a database can look for."""
    return text_of(source)


def read_route(
    route: Annotated[str | None, Query(description="A route, by its id or its name.")] = None,
) -> str | None:
    """Read a route's id or name."""
    return text_of(route)


def read_since(
    since: Annotated[
        str | None,
        Query(description="Received at this time or later.", json_schema_extra=TIME),
    ] = None,
) -> int | None:
    """Read the beginning of a time span."""
    return moment_of("since", since)


def read_until(
    until: Annotated[
        str | None, Query(description="Received before this time.", json_schema_extra=TIME)
    ] = None,
) -> int | None:
    """Read the end of a time span."""
    return moment_of("until", until)


def moment_of(name: str, text: str | None) -> int | None:
    """Read an ISO-8601 time or day as unix milliseconds; without a zone it is UTC.

    Raises: ParseError where it is neither.
    """
    if text is None:
        return None
    ms = iso_ms_of(_LOST_PLUS.sub(r"\1+\2", text))
    if ms is None:
        raise ParseError(
            f"`{name}` is {text[:40]!r}; write a time such as 2026-01-31T12:00:00Z, or a day"
        )
    return ms


def flag_of(name: str, text: str | None) -> bool | None:
    """Read yes or no.

    Raises: ParseError where it is neither.
    """
    if text is None:
        return None
    if text.lower() in {"1", "true"}:
        return True
    if text.lower() in {"0", "false"}:
        return False
    raise ParseError(f"`{name}` is {text[:20]!r}; use true or false")


ThePage = Annotated[PageQuery, Depends(read_page)]
TheType = Annotated[EventType | None, Depends(read_type)]
TheCause = Annotated[Cause | None, Depends(read_cause)]
Since = Annotated[int | None, Depends(read_since)]
Until = Annotated[int | None, Depends(read_until)]
TheSource = Annotated[str | None, Depends(read_source)]
TheRoute = Annotated[str | None, Depends(read_route)]
