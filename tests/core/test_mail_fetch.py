"""Fetching what a hook only announced, step by step, and with credentials where they belong."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from mailonce.core.arrivals.mail_fetch import (
    NO_KEY,
    REQUESTS_MAX,
    FetchAnswer,
    FetchFlow,
    FetchOutcome,
    FetchProblem,
    FetchRequest,
    MailFetch,
    kept_fields,
    known_fields,
    run_fetch,
    status_problem,
    with_credential,
)
from mailonce.core.arrivals.source import Source
from mailonce.core.mail.incoming import FieldAttachment, FieldsContent, MimeContent

SOURCE = Source(id="s", workspace="w", name="n", provider="p", account="a", api_keys=("k",))
URL = "https://api.example.com/1"


def authorize(request: FetchRequest, source: Source, now_ms: int) -> FetchRequest | FetchProblem:
    if not source.api_keys:
        return NO_KEY
    return with_credential(request, "authorization", f"{source.api_keys[0]} at {now_ms}")


def two_steps(arguments: Mapping[str, Any], source: Source) -> FetchFlow:
    del source
    first = yield FetchRequest(url=arguments["url"])
    second = yield FetchRequest(url=first.body.decode(), needs_credentials=False)
    return MimeContent(second.body)


def without_end(arguments: Mapping[str, Any], source: Source) -> FetchFlow:
    del arguments, source
    while True:
        yield FetchRequest(url=URL)


def at_once(arguments: Mapping[str, Any], source: Source) -> FetchFlow:
    del arguments, source
    problem = FetchProblem(reason="no", is_final=True)
    if not problem.is_final:
        yield FetchRequest(url=URL)
    return problem


async def run(
    begin: Callable[[Mapping[str, Any], Source], FetchFlow], source: Source = SOURCE
) -> tuple[FetchOutcome, list[FetchRequest]]:
    requests: list[FetchRequest] = []

    async def ask(request: FetchRequest) -> FetchAnswer:
        requests.append(request)
        return FetchAnswer(status=200, body=b"https://cdn.example.com/2")

    fetch = MailFetch(what="acme.mail", begin=begin, authorize=authorize)
    outcome = await run_fetch(fetch, {"url": URL}, source, ask, now_ms=lambda: 7)
    return outcome, requests


async def test_credentials_go_to_the_api_and_not_with_a_signed_url() -> None:
    outcome, requests = await run(two_steps)

    assert outcome == MimeContent(b"https://cdn.example.com/2")
    assert [(one.url, one.headers) for one in requests] == [
        (URL, (("authorization", "k at 7"),)),
        ("https://cdn.example.com/2", ()),
    ]


async def test_without_a_key_nothing_is_asked() -> None:
    plain = Source(id="s", workspace="w", name="n", provider="p", account="a")

    assert await run(two_steps, plain) == (NO_KEY, [])


async def test_a_fetch_may_end_before_its_first_request() -> None:
    assert await run(at_once) == (FetchProblem(reason="no", is_final=True), [])


async def test_a_fetch_without_end_is_ended() -> None:
    outcome, requests = await run(without_end)

    assert isinstance(outcome, FetchProblem)
    assert outcome.is_final
    assert len(requests) == REQUESTS_MAX


async def test_what_a_request_raises_ends_the_fetch() -> None:
    async def ask(_: FetchRequest) -> FetchAnswer:
        raise ConnectionError("away")

    fetch = MailFetch(what="acme.mail", begin=two_steps, authorize=authorize)
    with pytest.raises(ConnectionError):
        await run_fetch(fetch, {"url": URL}, SOURCE, ask, now_ms=lambda: 7)


@pytest.mark.parametrize(
    ("status", "is_final"),
    [
        (401, False),
        (403, False),
        (404, False),
        (429, False),
        (500, False),
        (302, False),
        (410, True),
    ],
)
def test_only_what_is_gone_is_final(status: int, is_final: bool) -> None:  # noqa: FBT001
    problem = status_problem(FetchAnswer(status=status))

    assert problem is not None
    assert problem.is_final == is_final
    assert status_problem(FetchAnswer(status=200)) is None


def test_fields_travel_in_the_arguments_and_come_back() -> None:
    file = FieldAttachment(name="a", type="b", content=b"\xff\x00", is_missing=True)
    fields = FieldsContent(subject="Hi", headers=(("A", "1"),), attachments=(file,))

    assert known_fields({"fields": kept_fields(fields)}) == fields


@pytest.mark.parametrize("arguments", [{}, {"fields": None}, {"fields": {"subject": 5}}])
def test_broken_arguments_are_no_fields(arguments: dict[str, Any]) -> None:
    assert known_fields(arguments) is None
