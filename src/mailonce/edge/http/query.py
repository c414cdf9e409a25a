"""Query parameters of the API; an error says which values are allowed.

Parameters come in as text, because FastAPI's own complaint about a wrong number or word is a
list of internals; the schema still tells the type.
"""

import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Query, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from mailonce.core.argument_error import ArgumentError
from mailonce.core.events.event import EventType
from mailonce.core.events.suppression import Cause
from mailonce.core.moment import DAY_MS, moment
from mailonce.core.reading.values import address_of, bare_address, iso_ms_of, text_of
from mailonce.views.paging import LIMIT_DEFAULT, LIMIT_MAX, PageQuery

Word = TypeVar("Word", bound=StrEnum)

# In a query a bare + means a space, which is how most zones arrive.
_LOST_PLUS = re.compile(r"(T.*) (\d\d:?\d\d)$")
# What providers report is looked for as it is, also where no mail could go there; but never two
# addresses, or one with something around it, for which nothing would be found.
_ONE_ADDRESS = re.compile(r"""(?:"[^"]+"|[^\s,;:<>()"@]+)@(?:\[[^\]\s]+\]|[^\s,;:<>()"'@]+)""")

NUMBER_MAX = (1 << 63) - 1
NUMBER: dict[str, Any] = {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX}
FLAG: dict[str, Any] = {"type": "boolean"}
TIME: dict[str, Any] = {"format": "date-time"}


# These are coroutines, though they wait for nothing: FastAPI runs plain functions on threads, which
# takes longer than most requests.
async def read_limit(
    limit: Annotated[str, Query(description="How many at most.", json_schema_extra=NUMBER)] = str(
        LIMIT_DEFAULT
    ),
) -> int:
    is_number = limit.isascii() and limit.isdecimal() and len(limit) < 10
    if not (is_number and 1 <= int(limit) <= LIMIT_MAX):
        raise ArgumentError(f"`limit` is {limit[:20]!r}; use a whole number from 1 to {LIMIT_MAX}")
    return int(limit)


TheLimit = Annotated[int, Depends(read_limit)]


async def read_page(
    limit: TheLimit,
    cursor: Annotated[
        str | None, Query(description="`next` of the page before; leave it out to begin.")
    ] = None,
) -> PageQuery:
    return PageQuery(limit, cursor)


async def refuse_unknown(request: Request) -> None:
    """Refuse query parameters that a path does not have: a misspelt filter would show too much.

    So would one of two values for the same parameter, of which only the last is read.

    Raises: ArgumentError which names the parameters that there are.
    """
    if not request.query_params:
        return
    route: APIRoute = request.scope["route"]
    known = frozenset(_aliases(route.dependant))
    for name in request.query_params:
        if name not in known:
            has = ", ".join(f"`{one}`" for one in sorted(known)) or "none"
            raise ArgumentError(f"there is no parameter {name[:40]!r} here; this path has {has}")
        times = len(request.query_params.getlist(name))
        if times > 1:
            raise ArgumentError(
                f"`{name}` is there {times} times; give it once, and ask again for each other value"
            )


async def refuse_reversed(request: Request) -> None:
    """Refuse a time range that ends before it begins: it would look as if there were nothing.

    Raises: ArgumentError.
    """
    since, until = (request.query_params.get(name) for name in ("since", "until"))
    if since is not None and until is not None:
        check_order(moment_of("since", since), moment_of("until", until))


def check_order(since_ms: int | None, until_ms: int | None) -> None:
    """Check that a time range does not end before it begins.

    Raises: ArgumentError.
    """
    if since_ms is not None and until_ms is not None and since_ms > until_ms:
        raise ArgumentError(
            f"`since` is later than `until` ({moment(since_ms)} and {moment(until_ms)}); "
            "nothing is between them"
        )


# For every router, except where links gain parameters on their way (files, unsubscribe) and where
# probes add some of their own (health).
KNOWN_QUERY = (Depends(refuse_unknown), Depends(refuse_reversed))


def _aliases(dependant: Dependant) -> Iterator[str]:
    for field in dependant.query_params:
        yield field.alias
    for inner in dependant.dependencies:
        yield from _aliases(inner)


def number_of(name: str, text: str, *, least: int = 0) -> int:
    """Read a whole number, as large as a database holds.

    Raises: ArgumentError where it is none.
    """
    is_number = text.isascii() and text.isdecimal() and len(text) < 20
    if not is_number or not least <= int(text) <= NUMBER_MAX:
        raise ArgumentError(f"`{name}` is {text[:20]!r}; use a whole number from {least}")
    return int(text)


def seconds_of(name: str, text: str, *, most: float) -> float:
    """Read how long to wait.

    Raises: ArgumentError where it is no time up to `most`.
    """
    try:
        seconds = float(text[:20])
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= most:
        raise ArgumentError(f"`{name}` is {text[:20]!r}; use seconds from 0 to {most:g}")
    return seconds


def text_in(name: str, text: str | None) -> str | None:
    """Read an id or a name, as text that a database can look for."""
    del name
    return text_of(text)


def address_in(name: str, text: str | None) -> str | None:
    """Read an email address, also one with a name before it, in its one spelling.

    Raises: ArgumentError where it is none: nothing would match it, and nobody would learn why.
    """
    del name
    if text is None:
        return None
    address = address_of(text)
    if _ONE_ADDRESS.fullmatch(address) is None:
        what = "is not one email address" if "@" in address else "is no email address"
        raise ArgumentError(f"{text[:80]!r} {what}; write it as name@example.com")
    return address


def sender_in(name: str, text: str | None) -> str | None:
    """Read an email address, likewise, or `@domain` for all of its addresses.

    Raises: ArgumentError where it is neither.
    """
    if text is None:
        return None
    bare = text_of(bare_address(text)) or ""
    if _ONE_ADDRESS.fullmatch(f"all{bare}" if bare.startswith("@") else bare) is None:
        raise ArgumentError(
            f"`{name}` is {text[:80]!r}; write name@example.com, or @example.com for all of it"
        )
    return bare


def moment_of(name: str, text: str | None) -> int | None:
    """Read an ISO-8601 time or day as unix milliseconds; without a zone it is UTC.

    Raises: ArgumentError where it is neither.
    """
    if text is None:
        return None
    ms = iso_ms_of(_LOST_PLUS.sub(r"\1+\2", text))
    if ms is None:
        raise ArgumentError(
            f"`{name}` is {text[:40]!r}; write a time such as 2026-01-31T12:00:00Z, or a day"
        )
    return ms


def day_in(name: str, text: str | None) -> int | None:
    """Read a day as the number of days since 1970; a time of it would be ignored.

    Raises: ArgumentError where it is no day, or a time that is not midnight in UTC.
    """
    ms = moment_of(name, text)
    if ms is None:
        return None
    day, rest = divmod(ms, DAY_MS)
    if rest:
        raise ArgumentError(
            f"`{name}` is {(text or '')[:40]!r}, and counts are by day; write a day such as "
            "2026-01-31"
        )
    return day


def flag_of(name: str, text: str | None) -> bool | None:
    """Read yes or no.

    Raises: ArgumentError where it is neither.
    """
    if text is None:
        return None
    if text.lower() in {"1", "true"}:
        return True
    if text.lower() in {"0", "false"}:
        return False
    raise ArgumentError(f"`{name}` is {text[:20]!r}; use true or false")


def word_of(words: type[Word], name: str, text: str | None) -> Word | None:
    """Read one of some words.

    Raises: ArgumentError where it is none of them.
    """
    if text is None:
        return None
    try:
        return words(text)
    except ValueError as error:
        known = ", ".join(words)
        raise ArgumentError(f"`{name}` is {text[:40]!r}; use one of {known}") from error


def parameter(
    name: str,
    read: Callable[[str, str | None], Any],
    description: str,
    schema: dict[str, Any] | None = None,
) -> Any:
    """Give what reads a parameter that may be left out."""
    query = Query(alias=name, description=description, json_schema_extra=schema)

    async def read_parameter(text: Annotated[str | None, query] = None) -> Any:
        return read(name, text)

    return Depends(read_parameter)


def _enum(words: type[StrEnum]) -> dict[str, Any]:
    return {"enum": [one.value for one in words]}


ThePage = Annotated[PageQuery, Depends(read_page)]
TheType = Annotated[
    EventType | None,
    parameter("type", partial(word_of, EventType), "The type of event.", _enum(EventType)),
]
TheCause = Annotated[
    Cause | None,
    parameter("cause", partial(word_of, Cause), "Lift this cause alone.", _enum(Cause)),
]
Since = Annotated[
    int | None,
    parameter("since", moment_of, "At this time or later: of receipt, or as the list says.", TIME),
]
Until = Annotated[int | None, parameter("until", moment_of, "Before this time.", TIME)]
TheRecipient = Annotated[str | None, parameter("recipient", address_in, "The recipient's address.")]
TheSource = Annotated[str | None, parameter("source", text_in, "A source, by its id or its name.")]
TheRoute = Annotated[str | None, parameter("route", text_in, "A route, by its id or its name.")]
