"""A redelivery by a filter while other deliveries of that filter are pending."""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from mailonce.testing import EventType, Happening, Simulator, make_simulators
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
BY_ROUTE = ("redeliver", "--route", "shop", "--since", "1h")


class Shop(NamedTuple):
    """A server, and the endpoint of its only route."""

    shell: Shell
    endpoint: Endpoint

    def states(self) -> list[str]:
        return sorted(one["state"] for one in self.deliveries() if one["attempts"])

    def deliveries(self) -> list[Any]:
        rows: list[Any] = self.shell.ok("delivery", "list", "--json").json["data"]
        return rows


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """Three bounces were delivered; the fourth met a 503, and the endpoint is well again."""
    shell = Shell(tmp_path_factory.mktemp("pending"))
    simulator = make_simulators(seed="pending")["sesmetric"]
    with running_endpoint() as endpoint:
        settings = SETTINGS.format(secret=simulator.settings()["secret"], url=endpoint.url(""))
        (shell.folder / "mailonce.toml").write_text(settings)
        shop = Shop(shell, endpoint)
        with shell.serving() as url:
            _bounce(url, simulator, 1, 2, 3)
            wait_for(lambda: shop.states() == ["delivered"] * 3, what="three deliveries")
            endpoint.behaviours["/shop"] = answers(503)
            _bounce(url, simulator, 4)
            wait_for(lambda: shop.states() == ["delivered"] * 3 + ["pending"], what="the fourth")
            del endpoint.behaviours["/shop"]
            yield shop


def _bounce(url: str, simulator: Simulator, *numbers: int) -> None:
    now_s = int(time.time())
    for number in numbers:
        bounce = Happening(
            f"e-{number}", EventType.BOUNCED, f"m-{number}", f"ann{number}@example.net", now_s
        )
        post(url, "/in/main", simulator.post([bounce], now_s=now_s))


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
