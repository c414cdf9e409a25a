"""A settings file is applied whole or not at all; what it no longer has is switched off."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mailonce.core.access import Caller, Scope
from mailonce.core.record_origin import NOT_IN_FILE
from mailonce.errors import ClashError, ConfigError
from mailonce.manage.settings_file import apply_settings
from mailonce.service import Service
from mailonce.settings import Settings
from mailonce.wiring import build_service

CALLER = Caller("default", Scope.ADMIN)
HOOKS = {"provider": "sesmetric", "secret": "a secret of hooks"}
CRM = {"url": "https://crm.example.com/hooks"}
OUT = {"provider": "smtp", "host": "mail.example.com"}
EVERYTHING: dict[str, Any] = {
    "sources": {"main": HOOKS, "hooks": HOOKS},
    "routes": {"crm": CRM},
    "senders": {"out": OUT},
}


@pytest.fixture
async def service(database_url: str, tmp_path: Path) -> AsyncIterator[Service]:
    made = await build_service(settings(tmp_path, database=database_url))
    yield made
    await made.database.close()


def settings(folder: Path, **given: Any) -> Settings:
    return Settings(data_dir=folder, admin_key="admin-key-for-tests", master_key="one", **given)


async def states(service: Service) -> dict[str, str | None]:
    """Every record that there is, and why it is off."""
    await service.configuration.reload()
    known = service.snapshot
    return {
        **{one.name: one.off for one in known.sources.values()},
        **{one.name: one.off for one in known.routes.values()},
        **{one.name: one.off for one in known.senders.values()},
    }


async def test_what_a_file_no_longer_has_is_off_until_it_is_put_back(
    service: Service, tmp_path: Path
) -> None:
    manage = service.manage
    await apply_settings(manage, settings(tmp_path, **EVERYTHING))
    await manage.sources.make(CALLER, "by-hand", settings(tmp_path, **EVERYTHING).sources["main"])
    only_main = settings(tmp_path, sources={"main": HOOKS})

    before = await states(service)
    applied = await apply_settings(manage, only_main)
    during = await states(service)
    again = await apply_settings(manage, only_main)
    put_back = await apply_settings(manage, settings(tmp_path, **EVERYTHING))
    after = await states(service)

    assert before == dict.fromkeys(["main", "hooks", "by-hand", "crm", "out"])
    assert during == {**before, **dict.fromkeys(["hooks", "crm", "out"], NOT_IN_FILE)}
    assert [str(one) for one in applied.off] == ["source hooks", "route crm", "sender out"]
    assert again.off == applied.off, "each start says what is off"
    assert [str(one) for one in put_back.changed] == ["source hooks", "route crm", "sender out"]
    assert put_back.off == ()
    assert after == before


async def test_a_file_with_one_wrong_record_changes_nothing(
    service: Service, tmp_path: Path
) -> None:
    await apply_settings(service.manage, settings(tmp_path, **EVERYTHING))
    await service.manage.sources.make(
        CALLER, "taken", settings(tmp_path, **EVERYTHING).sources["main"]
    )
    before = await states(service), service.snapshot.version
    wrong: dict[str, tuple[type[Exception], dict[str, Any]]] = {
        "a name that the API gave away": (ClashError, {"sources": {"new": HOOKS, "taken": HOOKS}}),
        "a source that is nowhere": (
            ConfigError,
            {"sources": {"new": HOOKS}, "routes": {"r": {**CRM, "sources": ["gone"]}}},
        ),
        "a private address": (
            ConfigError,
            {"sources": {"new": HOOKS}, "routes": {"r": {"url": "http://10.0.0.1/"}}},
        ),
        "senders in a circle": (
            ConfigError,
            {"sources": {"new": HOOKS}, "senders": {"out": {**OUT, "next_sender": "out"}}},
        ),
    }

    for given in wrong.values():
        with pytest.raises(given[0]):
            await apply_settings(service.manage, settings(tmp_path, **given[1]))

    assert (await states(service), service.snapshot.version) == before


async def test_what_is_switched_on_by_hand_is_no_longer_the_files(
    service: Service, tmp_path: Path
) -> None:
    manage = service.manage
    await apply_settings(manage, settings(tmp_path, **EVERYTHING))
    only_main = settings(tmp_path, sources={"main": HOOKS})
    await apply_settings(manage, only_main)

    await manage.sources.switch(CALLER, "hooks", off=None)
    await manage.routes.switch(CALLER, "crm", off=None)
    await manage.senders.switch(CALLER, "out", off=None)
    applied = await apply_settings(manage, only_main)

    assert applied.off == ()
    assert set((await states(service)).values()) == {None}


async def test_what_was_changed_over_the_api_is_still_the_files(
    service: Service, tmp_path: Path
) -> None:
    manage, everything = service.manage, settings(tmp_path, **EVERYTHING)
    await apply_settings(manage, everything)
    only_main = settings(tmp_path, sources={"main": HOOKS})
    other_out = settings(tmp_path, senders={"out": {**OUT, "port": 2525}}).senders["out"]

    await manage.sources.update(CALLER, "hooks", {"secret": "another secret"})
    await manage.routes.update(CALLER, "crm", {"concurrency": 3})
    await manage.senders.change(CALLER, "out", other_out)
    read_again = await apply_settings(manage, everything)
    await manage.sources.update(CALLER, "hooks", {"secret": "another secret"})
    await manage.routes.update(CALLER, "crm", {"concurrency": 3})
    await manage.senders.change(CALLER, "out", other_out)
    taken_out = await apply_settings(manage, only_main)
    during = await states(service)
    await manage.routes.update(CALLER, "crm", {"concurrency": 4})
    adopted = await apply_settings(manage, only_main)

    assert [str(one) for one in read_again.changed] == ["source hooks", "route crm", "sender out"]
    assert [str(one) for one in taken_out.off] == ["source hooks", "route crm", "sender out"]
    assert [during[name] for name in ("hooks", "crm", "out")] == [NOT_IN_FILE] * 3
    assert [str(one) for one in adopted.off] == ["source hooks", "sender out"]
    assert (await states(service))["crm"] is None, "whoever changes what is off keeps it"


async def test_what_somebody_switched_off_stays_off_when_the_file_is_read(
    service: Service, tmp_path: Path
) -> None:
    everything = settings(tmp_path, **EVERYTHING)
    await apply_settings(service.manage, everything)
    await service.manage.sources.switch(CALLER, "hooks", off="it floods us")
    await service.manage.routes.switch(CALLER, "crm", off="410")

    await apply_settings(service.manage, everything)

    assert (await states(service))["hooks"] == "it floods us"
    assert (await states(service))["crm"] == "410"


async def test_who_knows_no_file_or_keeps_what_is_not_in_it_switches_nothing_off(
    service: Service, tmp_path: Path
) -> None:
    await apply_settings(service.manage, settings(tmp_path, **EVERYTHING))
    only_main: dict[str, Any] = {"sources": {"main": HOOKS}}

    without_file = await apply_settings(service.manage, settings(tmp_path))
    keeps = settings(tmp_path, not_in_file="keep", **only_main)
    kept = await apply_settings(service.manage, keeps)

    assert without_file.off == kept.off == ()
    assert set((await states(service)).values()) == {None}


async def test_a_secret_is_made_once_and_a_file_that_says_the_same_changes_nothing(
    service: Service, tmp_path: Path
) -> None:
    shown: list[str] = []
    everything = settings(tmp_path, **EVERYTHING)

    first = await apply_settings(service.manage, everything, lambda what, _: shown.append(what))
    version = service.snapshot.version
    second = await apply_settings(service.manage, everything, lambda what, _: shown.append(what))

    assert shown == ["secret of route crm"]
    assert len(first.changed) == 4
    assert second.changed == ()
    assert service.snapshot.version == version


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
async def test_a_chain_of_senders_can_be_turned_round_in_the_file(
    service: Service, tmp_path: Path, names: tuple[str, str]
) -> None:
    chain = {"a": {**OUT, "next_sender": "b"}, "b": OUT}
    turned = {"a": OUT, "b": {**OUT, "next_sender": "a"}}
    await apply_settings(service.manage, settings(tmp_path, senders=chain))

    in_order = {name: turned[name] for name in names}
    await apply_settings(service.manage, settings(tmp_path, senders=in_order))

    known = service.manage.senders.list_of(CALLER)
    assert {one.name: one.next_sender for one in known} == {"a": None, "b": "a"}
