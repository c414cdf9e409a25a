"""What a request for inboxes may ask for."""

from typing import Any

import pytest
from msgspec import UNSET

from mailonce.core.inboxes.inbox import Inbox
from mailonce.core.inboxes.inbox_request import (
    InboxLimits,
    InboxRequest,
    address_for,
    fingerprint_of,
    inbox_for,
    request_keys,
)
from mailonce.errors import ParseError

NOON_MS = 1_767_268_800_000
LIMITS = InboxLimits(ttl_s=60, ttl_s_max=600, mails_max=10, bytes_max=1000)
CHANCE = bytes(range(10))


def make(limits: InboxLimits = LIMITS, **asked: Any) -> Inbox:
    return inbox_for(
        InboxRequest(**asked),
        limits,
        id_="inb_1",
        workspace="default",
        domain="in.test",
        chance=CHANCE,
        now_ms=NOON_MS,
    )


def test_a_request_for_nothing_gets_a_random_address_and_an_end() -> None:
    made = make()

    assert made.address == "aaaqeayeaudaocaj@in.test"
    assert made.expires_ms == NOON_MS + 60_000
    assert (made.mails_max, made.bytes_max) == (10, 1000)


def test_what_is_asked_for_within_the_limits_is_given() -> None:
    made = make(local="Ann", ttl_s=600, metadata={"run": [7]}, mails_max=1, bytes_max=2)

    assert (made.address, made.expires_ms) == ("ann@in.test", NOON_MS + 600_000)
    assert (made.metadata, made.mails_max, made.bytes_max) == ({"run": [7]}, 1, 2)


def test_an_inbox_has_no_end_only_where_that_is_allowed() -> None:
    with pytest.raises(ParseError, match=r"inboxes\.permanent"):
        make(ttl_s=None)

    assert make(InboxLimits(permanent=True), ttl_s=None).expires_ms is None
    assert make(InboxLimits(permanent=True), ttl_s=UNSET).expires_ms is not None


@pytest.mark.parametrize(
    ("asked", "word"),
    [
        ({"ttl_s": 0}, "`ttl_s`"),
        ({"ttl_s": 601}, "from 1 to 600"),
        ({"mails_max": 11}, "`mails_max`"),
        ({"bytes_max": 0}, "`bytes_max`"),
        ({"metadata": {"long": "x" * 5000}}, "`metadata`"),
        ({"metadata": {"deep": [[[[[[[[[[[[1]]]]]]]]]]]]}}, "deeper"),
        ({"local": "ann+tag"}, "tag"),
        ({"local": ""}, "`local`"),
        ({"local": "a b"}, "`local`"),
        ({"local": "a@b"}, "`local`"),
        ({"local": "ann."}, "`local`"),
        ({"local": '"ann"x'}, "`local`"),
        ({"local": "a\r\nb"}, "`local`"),
        ({"local": "x" * 65}, "`local`"),
        ({"local": "ännchen"}, "ASCII"),
    ],
)
def test_what_is_beyond_the_limits_is_refused_with_its_name(
    asked: dict[str, Any], word: str
) -> None:
    with pytest.raises(ParseError, match=word):
        make(**asked)


def test_a_star_is_the_catch_all_of_its_domain() -> None:
    assert address_for("*", "in.test", chance=b"") == "@in.test"


def test_random_addresses_differ_in_every_bit_of_chance() -> None:
    flipped = bytes([CHANCE[0] ^ 1, *CHANCE[1:]])

    one, other = (address_for(None, "in.test", chance=chance) for chance in (CHANCE, flipped))

    assert one != other
    assert len(one.partition("@")[0]) * 5 >= 80


def test_a_key_leads_to_each_inbox_of_its_request() -> None:
    keys = request_keys("order-7", 1000)

    assert len(set(keys)) == 1000
    assert request_keys("order-7", 3) == keys[:3]
    assert request_keys("order-8", 1) != keys[:1]


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "ü", "a\nb"])
def test_a_key_that_is_none_is_refused(key: str) -> None:
    with pytest.raises(ParseError, match="Idempotency-Key"):
        request_keys(key, 1)


def test_other_content_has_another_fingerprint() -> None:
    asked = [
        [InboxRequest()],
        [InboxRequest(), InboxRequest()],
        [InboxRequest(ttl_s=None)],
        [InboxRequest(ttl_s=60)],
        [InboxRequest(local="ann")],
        [InboxRequest(metadata={"a": 1})],
    ]

    assert len({fingerprint_of(one) for one in asked}) == len(asked)
    first, second = {"a": 1, "b": 2}, {"b": 2, "a": 1}
    assert fingerprint_of([InboxRequest(metadata=first)]) == fingerprint_of(
        [InboxRequest(metadata=second)]
    )
