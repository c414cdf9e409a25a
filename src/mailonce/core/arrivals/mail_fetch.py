"""Fetching what a provider's hook only announced: a mail, or its attachments. Pure.

A fetch is a generator. It yields what must be asked, gets the answers, and returns the content or
what is in the way; `run_fetch` drives it. Every URL is made of a host that the provider's file
names. Credentials are added just before a request leaves, so that nothing which is stored or
logged has any; a URL that is a credential itself, such as a signed download, goes without ours.
"""

from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import Struct

from mailonce.core.arrivals.source import Source
from mailonce.core.mail.incoming import FieldsContent, MimeContent

# Of one answer; a mail with its attachments in Base64 is larger than what was sent.
ANSWER_BYTES_MAX = 64 << 20
# Of one mail.
REQUESTS_MAX = 100


class FetchRequest(Struct, frozen=True, kw_only=True):
    """A GET, without credentials."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    needs_credentials: bool = True


class FetchAnswer(Struct, frozen=True, kw_only=True):
    """What came back; `headers` have lower-case names."""

    status: int
    headers: Mapping[str, str] = {}
    body: bytes = b""


class FetchProblem(Struct, frozen=True, kw_only=True):
    """Why there is no content; where it is final, asking again is pointless."""

    reason: str
    is_final: bool = False


FetchOutcome = MimeContent | FieldsContent | FetchProblem
FetchFlow = Generator[FetchRequest, FetchAnswer, FetchOutcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class MailFetch:
    """One way of fetching, by the name that a `FetchContent` has it under.

    `begin(arguments, source)` gets what the hook's `FetchContent` holds.
    `authorize(request, source, now_ms)` adds the credentials, or says which are missing.
    `fallback(arguments)` gives what is known without fetching, for when that was given up.
    """

    what: str
    begin: Callable[[Mapping[str, Any], Source], FetchFlow]
    authorize: Callable[[FetchRequest, Source, int], FetchRequest | FetchProblem]
    fallback: Callable[[Mapping[str, Any]], FieldsContent | None] = lambda _: None


async def run_fetch(
    fetch: MailFetch,
    arguments: Mapping[str, Any],
    source: Source,
    ask: Callable[[FetchRequest], Awaitable[FetchAnswer]],
    *,
    now_ms: Callable[[], int],
) -> FetchOutcome:
    """Run a fetch to its end; `ask` makes one request, and what it raises ends the fetch."""
    flow = fetch.begin(arguments, source)
    try:
        request = next(flow)
        for _ in range(REQUESTS_MAX):
            ready: FetchRequest | FetchProblem = request
            if request.needs_credentials:
                ready = fetch.authorize(request, source, now_ms())
            if isinstance(ready, FetchProblem):
                return ready
            request = flow.send(await ask(ready))
    except StopIteration as end:
        outcome: FetchOutcome = end.value
        return outcome
    finally:
        flow.close()
    return FetchProblem(reason=f"the mail takes more than {REQUESTS_MAX} requests", is_final=True)


def status_problem(answer: FetchAnswer) -> FetchProblem | None:
    """Say what an answer that is no success means; None where it is one."""
    match answer.status:
        case HTTPStatus.OK:
            return None
        case HTTPStatus.UNAUTHORIZED | HTTPStatus.FORBIDDEN:
            reason = "the provider refused the credentials; correct the source's `api_key`"
            return FetchProblem(reason=reason)
        case HTTPStatus.GONE:
            return FetchProblem(reason="the provider has the mail no longer", is_final=True)
        case status:
            # 404 among them: a mail may be announced a moment before it can be had.
            return FetchProblem(reason=f"the provider answered {status}")


def with_credential(request: FetchRequest, name: str, value: str) -> FetchRequest:
    """Add one header that holds a credential."""
    return FetchRequest(
        url=request.url,
        headers=(*request.headers, (name, value)),
        needs_credentials=request.needs_credentials,
    )


def kept_fields(fields: FieldsContent) -> Any:
    """Write fields into the arguments of a fetch, which are stored as JSON."""
    return msgspec.json.decode(msgspec.json.encode(fields))


def known_fields(arguments: Mapping[str, Any]) -> FieldsContent | None:
    """Read what `kept_fields` wrote under "fields"; None where there is nothing of the kind."""
    try:
        return msgspec.convert(arguments.get("fields"), FieldsContent)
    except msgspec.ValidationError:
        return None


NO_KEY = FetchProblem(reason="the source has no `api_key`, without which mail cannot be fetched")
