"""Which sender a wait takes: every spelling of an address, and nothing that no mail can have."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from mailonce import AsyncClient, Client
from mailonce.client.message_match import MessageMatch
from mailonce.client.records import MessageRecord
from mailonce.errors import ConfigError, ParseError

NOBODY = "http://127.0.0.1:1"


def message_from(address: str) -> MessageRecord:
    return MessageRecord(
        id="msg_1",
        seq=1,
        inbox="inb_1",
        sender=address,
        subject="Hi",
        text="",
        html=None,
        received_at="2026-01-01T00:00:00Z",
        json={},
    )


@pytest.mark.parametrize(
    "sender",
    [
        "ann@example.net",
        "ANN@Example.NET",
        "Ann <ann@example.net>",
        '"Lee, <Ann>" <Ann@example.net>',
        " <ann@example.net> ",
        "ann@example.net.",
        "@example.net",
        "@EXAMPLE.net.",
        None,
    ],
)
def test_every_spelling_of_a_sender_matches(sender: str | None) -> None:
    match = MessageMatch(sender=sender)

    assert match.matches(message_from("Ann@example.net"))
    assert match.matches(message_from("ann@EXAMPLE.net."))


@pytest.mark.parametrize("sender", ["n@example.net", "@xample.net", "@net", "@mail.example.net"])
def test_a_part_of_an_address_does_not_match(sender: str) -> None:
    match = MessageMatch(sender=sender)

    assert not match.matches(message_from("ann@example.net"))
    assert not match.matches(message_from("ann@other.example.net"))
    assert not match.matches(message_from(""))


@pytest.mark.parametrize(
    "sender", ["ann@bücher.example", "@Bücher.example", "@xn--bcher-kva.example"]
)
def test_a_domain_matches_in_its_own_script_and_as_dns_has_it(sender: str) -> None:
    match = MessageMatch(sender=sender)

    assert match.matches(message_from("ann@xn--bcher-kva.example"))
    assert match.matches(message_from("Ann@BÜCHER.example"))


def wait_blocking(**given: Any) -> None:
    with Client(NOBODY, "mok_1") as client:
        client.wait_for_message("inb_1", **given)


def wait_awaited(**given: Any) -> None:
    async def wait() -> None:
        async with AsyncClient(NOBODY, "mok_1") as client:
            await client.wait_for_message("inb_1", **given)

    asyncio.run(wait())


NEVER = (
    "", " ", "@", "ann@", "ann@.", "example.net", "Ann", "Ann <ann>", "*@example.net",
    "a@example.net, b@example.net", "a@b@example.net", "ann@exa mple.net",
)  # fmt: skip


@pytest.mark.parametrize("wait", [wait_blocking, wait_awaited])
@pytest.mark.parametrize("sender", NEVER)
def test_what_can_never_match_is_not_waited_for(sender: str, wait: Callable[..., None]) -> None:
    with pytest.raises(ParseError, match=r"`sender` is .*; write shop@example\.com, or @example"):
        wait(sender=sender)


@pytest.mark.parametrize("wait", [wait_blocking, wait_awaited])
def test_neither_is_what_is_no_text(wait: Callable[..., None]) -> None:
    wrong: dict[str, Any] = {"sender": ["ann@example.net"], "subject": 3}
    for name, value in wrong.items():
        with pytest.raises(ConfigError, match=f"`{name}` is .*; write one text in quotes"):
            wait(**{name: value})
