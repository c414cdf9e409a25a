"""A redelivery by a filter while other deliveries of that filter are pending."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mailonce.testing import EventType, Happening, make_simulators
from tests.commands import Shell, post
from tests.endpoint import Endpoint, answers, running_endpoint
from tests.servers import wait_for

SETTINGS = """
[sources.main]
provider = "sesmetric"
secret = "{secret}"
[routes.shop]
url = "{url}/shop"
waits_s = [3600, 3600, 3600, 3600, 3600, 3600]
[net]
allow_hosts = ["127.0.0.1"]
"""
SIMULATOR = make_simulators(seed="pending")["sesmetric"]
BY_ROUTE = ("redeliver", "--route", "shop", "--since", "1h")


class Shop(NamedTuple):
    """A server, and the endpoint of its only route."""

    shell: Shell
    endpoint: Endpoint
    url: str = ""

    def states(self) -> list[str]:
        return sorted(one["state"] for one in self.deliveries() if one["attempts"])

    def deliveries(self) -> list[Any]:
        rows: list[Any] = self.shell.ok("delivery", "list", "--json").json["data"]
        return rows


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """Three bounces were delivered; the fourth met a 503, and the endpoint is well again."""
    shell = Shell(tmp_path_factory.mktemp("pending"))
    with running_endpoint() as endpoint:
        settings = SETTINGS.format(secret=SIMULATOR.settings()["secret"], url=endpoint.url(""))
        (shell.folder / "mailonce.toml").write_text(settings)
        with shell.serving() as url:
            shop = Shop(shell, endpoint, url)
            for number in (1, 2, 3):
                _bounce(url, number, f"ann{number}@example.net")
            wait_for(lambda: shop.states() == ["delivered"] * 3, what="three deliveries")
            endpoint.behaviours["/shop"] = answers(503)
            _bounce(url, 4, "ann4@example.net")
            wait_for(lambda: shop.states() == ["delivered"] * 3 + ["pending"], what="the fourth")
            del endpoint.behaviours["/shop"]
            yield shop


def _bounce(url: str, number: int, recipient: str) -> None:
    now_s = int(time.time())
    bounce = Happening(f"e-{number}", EventType.BOUNCED, f"m-{number}", recipient, now_s)
    post(url, "/in/main", SIMULATOR.post([bounce], now_s=now_s))


def test_a_redelivery_is_followed_and_nothing_else(shop: Shop) -> None:
    done = shop.shell.run(*BY_ROUTE, "--yes")

    assert "queued 3 of 3 deliveries" in done.out
    assert "3 delivered" in done.out, done.out
    assert "wait" not in done.out, done.out
    assert done.code == 0


def test_a_redelivery_that_waits_says_why(shop: Shop) -> None:
    before = len(shop.endpoint.requests)
    shop.endpoint.behaviours["/shop"] = answers(503)
    try:
        done = shop.shell.run(*BY_ROUTE, "--yes")
    finally:
        del shop.endpoint.behaviours["/shop"]
    ids = [one["id"] for one in shop.deliveries() if one["redeliveries"]]
    again = shop.shell.run("redeliver", *ids)

    assert done.code == 1
    assert "0 delivered, 3 wait" in done.out, done.out
    assert "shop answered 503; next attempt 20" in done.out
    assert "3 delivered" in again.out, again.out
    assert len(shop.endpoint.requests) >= before + 4


def test_what_is_pending_is_not_left_out_without_a_word(
    shop: Shop, subtests: pytest.Subtests
) -> None:
    by_address = ("redeliver", "--recipient", "ann4@example.net")
    tried = "1 is pending already: shop is tried without you; `mailonce redeliver --route shop"
    expected = {
        (*BY_ROUTE, "--dry-run"): f"{tried} --since 20",
        (*BY_ROUTE, "--yes"): f"{tried} --since 20",
        (*BY_ROUTE, "--type", "bounced", "--dry-run"): "1 is pending already; --state pending",
    }

    for command, words in expected.items():
        with subtests.test(" ".join(command)):
            assert words in shop.shell.ok(*command).out
    with subtests.test("an address"):
        refused = shop.shell.run(*by_address)

        assert refused.code == 1
        assert "1 pending or in progress; --state pending sends it now" in refused.err
    with subtests.test("named states"):
        of_pending = shop.shell.ok(*BY_ROUTE, "--state", "pending", "--dry-run").out

        assert "would redeliver 1 delivery" in of_pending
        assert "pending already" not in of_pending


def test_what_is_pending_is_sent_at_once(shop: Shop) -> None:
    by_address = ("redeliver", "--recipient", "ann4@example.net", "--state", "pending")

    done = shop.shell.run(*by_address)

    assert (done.code, "1 delivered" in done.out) == (0, True), done.out + done.err


def test_what_is_pending_of_an_address_is_not_left_out_without_a_word(shop: Shop) -> None:
    count = len(shop.states())
    shop.endpoint.behaviours["/shop"] = answers(503)
    _bounce(shop.url, 5, "ann1@example.net")
    wait_for(lambda: len(shop.states()) == count + 1, what="the attempt")
    del shop.endpoint.behaviours["/shop"]

    counted = shop.shell.ok("redeliver", "--recipient", "ann1@example.net", "--dry-run").out

    assert "would redeliver 1 delivery" in counted
    assert "1 left out, pending already; --state pending sends it now" in counted


def test_what_waits_for_a_server_is_not_said_to_be_never_tried(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    with running_endpoint() as endpoint:
        settings = SETTINGS.format(secret=SIMULATOR.settings()["secret"], url=endpoint.url(""))
        (shell.folder / "mailonce.toml").write_text(settings)
        with shell.serving() as url:
            shop = Shop(shell, endpoint, url)
            _bounce(url, 1, "ann1@example.net")
            wait_for(lambda: shop.states() == ["delivered"], what="the delivery")

    done = shell.run("redeliver", "--route", "shop", "--yes")

    assert done.code == 1
    assert "1 waits: shop was not tried again yet" in done.out, done.out + done.err
