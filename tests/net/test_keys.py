"""The key ring: one fetch for many callers, kept for a day."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from mailonce.errors import UnavailableError
from mailonce.net.http import GuardedClient
from mailonce.net.keys import FETCHES_MAX, KEYS_MAX, KeyRing
from tests.clock import ManualClock
from tests.net.conftest import HOST, Authority, Peer

URL = f"https://{HOST}/key.pem"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def ring(authority: Authority, peer: Peer, clock: ManualClock) -> AsyncIterator[KeyRing]:
    hosts = {HOST: peer.address}
    async with GuardedClient(hosts=hosts, ca_file=authority.ca_file) as client:
        ring_ = KeyRing(client, monotonic=clock.monotonic)
        yield ring_
        await ring_.close()


async def test_callers_at_once_share_one_fetch(ring: KeyRing, peer: Peer) -> None:
    keys = await asyncio.gather(*(ring.get(URL) for _ in range(20)))

    assert keys == [peer.key] * 20
    assert len(peer.seen) == 1


async def test_a_key_is_kept_for_a_day(ring: KeyRing, peer: Peer, clock: ManualClock) -> None:
    await ring.get(URL)
    clock.advance(86_399)
    await ring.get(URL)
    assert len(peer.seen) == 1

    clock.advance(2)
    await ring.get(URL)

    assert len(peer.seen) == 2


@pytest.mark.parametrize(
    ("status", "key"), [(404, b"-----BEGIN"), (302, b"-----BEGIN"), (200, b"<html>")]
)
async def test_a_failure_is_remembered_for_a_moment(
    ring: KeyRing, peer: Peer, clock: ManualClock, status: int, key: bytes
) -> None:
    good, peer.status, peer.key = peer.key, status, key
    for _ in range(3):
        with pytest.raises(UnavailableError):
            await ring.get(URL)
    assert len(peer.seen) == 1

    peer.status, peer.key = 200, good
    clock.advance(5.1)

    assert await ring.get(URL) == good


@pytest.mark.parametrize("key", [b"0\x82\x03\x1b", b"-----BEGIN CERTIFICATE-----"])
async def test_a_certificate_may_come_in_either_encoding(
    ring: KeyRing, peer: Peer, key: bytes
) -> None:
    peer.key = key

    assert await ring.get(URL.replace(".pem", ".crt")) == key


async def test_a_page_in_place_of_a_certificate_is_unavailable(ring: KeyRing, peer: Peer) -> None:
    peer.key = b"<html>"

    with pytest.raises(UnavailableError, match="no certificate"):
        await ring.get(URL.replace(".pem", ".crt"))


async def test_what_the_guard_refuses_is_unavailable_too(ring: KeyRing) -> None:
    with pytest.raises(UnavailableError, match="not a public address"):
        await ring.get("https://127.0.0.1/key.pem")


async def test_a_key_above_the_limit_is_unavailable(ring: KeyRing, peer: Peer) -> None:
    peer.key = b"-----BEGIN" + b"x" * 65_536

    with pytest.raises(UnavailableError, match="more than"):
        await ring.get(URL)


async def test_one_caller_who_leaves_does_not_take_the_key_from_another(
    ring: KeyRing, peer: Peer
) -> None:
    peer.gate.clear()
    leaving, staying = (asyncio.create_task(ring.get(URL)) for _ in range(2))
    await asyncio.sleep(0.05)

    leaving.cancel()
    peer.gate.set()

    assert await staying == peer.key
    assert len(peer.seen) == 1


async def test_no_more_than_a_few_keys_are_fetched_at_once(ring: KeyRing, peer: Peer) -> None:
    peer.gate.clear()
    waiting = [asyncio.create_task(ring.get(f"{URL}?{n}")) for n in range(FETCHES_MAX)]
    await asyncio.sleep(0.05)

    with pytest.raises(UnavailableError, match="too many"):
        await ring.get(URL)

    peer.gate.set()
    await asyncio.gather(*waiting)
    assert await ring.get(URL) == peer.key


async def test_forged_messages_do_not_keep_a_known_key_from_being_renewed(
    ring: KeyRing, peer: Peer, clock: ManualClock
) -> None:
    await ring.get(URL)
    clock.advance(86_401)
    peer.gate.clear()
    forged = [asyncio.create_task(ring.get(f"{URL}?{n}")) for n in range(FETCHES_MAX)]
    await asyncio.sleep(0.05)

    honest = asyncio.create_task(ring.get(URL))
    await asyncio.sleep(0.05)
    peer.gate.set()

    assert await honest == peer.key
    await asyncio.gather(*forged)


async def test_a_key_that_cannot_be_renewed_stands_for_a_week(
    ring: KeyRing, peer: Peer, clock: ManualClock
) -> None:
    key = await ring.get(URL)
    peer.status = 500
    clock.advance(86_401)

    assert await ring.get(URL) == key

    clock.advance(7 * 86_400)
    with pytest.raises(UnavailableError):
        await ring.get(URL)


async def test_old_keys_make_room_and_failures_do_not_push_keys_out(
    ring: KeyRing, peer: Peer
) -> None:
    await ring.get(URL)
    peer.status = 404
    for n in range(KEYS_MAX + 1):
        with pytest.raises(UnavailableError):
            await ring.get(f"{URL}?bad{n}")
    peer.status = 200
    peer.seen.clear()

    await ring.get(URL)
    assert peer.seen == []

    for n in range(KEYS_MAX):
        await ring.get(f"{URL}?{n}")
    peer.seen.clear()
    await ring.get(URL)
    assert len(peer.seen) == 1


async def test_a_key_that_never_came_is_unavailable_whatever_the_clock_says(
    ring: KeyRing, peer: Peer, clock: ManualClock
) -> None:
    """An empty key in its place would refuse honest senders for good."""
    peer.status = 500
    for number in range(50):
        # Times whose last bits are lost when a week is taken away and added again.
        clock.monotonic_s = 9_000.1 + number * 7.3

        with pytest.raises(UnavailableError):
            await ring.get(f"https://{HOST}/key-{number}.pem")
