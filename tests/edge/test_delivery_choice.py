"""Which deliveries a redelivery by address is of, where there are many."""

from typing import Any

import pytest

from mailonce.core.events.event import EventType
from mailonce.edge.cli import delivery_choice
from mailonce.edge.cli.delivery_choice import IDS_MAX, choose
from mailonce.edge.cli.show import Show
from mailonce.errors import ConfigError


class ManyRows:
    """Answers as a server does that has `count` deliveries, every second one of a bounce."""

    def __init__(self, count: int, *, others: int = 0) -> None:
        self._count = count
        # Bounces that no route got, and newer.
        self._others = others

    async def some(self, *path: str, limit: int, **query: Any) -> Any:
        rows = await self.all(*path, **query)
        return {"data": rows[:limit], "next": None}

    async def all(self, *path: str, **_: Any) -> list[Any]:
        numbers = range(self._count)
        if path == ("events",):
            alone = [{"id": f"alone_{number}"} for number in range(self._others)]
            return alone + [{"id": f"evt_{number}"} for number in numbers[::2]]
        return [
            {"id": f"dlv_{number}", "event": f"evt_{number}", "state": "delivered"}
            for number in numbers
        ]

    async def post(self, *path: str, body: Any) -> Any:
        assert (path, body["dry_run"]) == (("redeliveries",), True)
        return {"total": len(body["ids"])}


async def bounces_of(server: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    async def about(*_: object) -> dict[str, str]:
        return {"recipient": "ann@example.net"}

    monkeypatch.setattr(delivery_choice, "about", about)
    return await choose(
        server, Show(json=True), recipient="ann@example.net", message=None,
        type_=EventType.BOUNCED, states=None, yes=True, route=None, since=None, until=None,
    )  # fmt: skip


async def test_more_than_can_be_named_are_refused_also_of_one_type(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ConfigError, match="more than 1,000"):
        await bounces_of(ManyRows(IDS_MAX + 1), monkeypatch)


async def test_all_of_one_type_are_chosen_among_many_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ids = await bounces_of(ManyRows(4, others=IDS_MAX), monkeypatch)

    assert ids == ["dlv_0", "dlv_2"]
