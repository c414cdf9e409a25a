"""A mail domain belongs to one workspace."""

import asyncio

import pytest

from mailonce.core.access import Caller
from mailonce.errors import ClashError, ConfigError, MissingError, ParseError, RefusedError
from mailonce.store.dialects.contract import Database
from tests.manage.conftest import ALICE, BOB, Managed


async def names(managed: Managed, caller: Caller = ALICE) -> list[str]:
    return [one.domain for one in await managed.domains.list_of(caller)]


async def test_without_a_domain_in_the_settings_there_is_one_to_begin_with(
    database: Database,
) -> None:
    managed = Managed(database)

    await managed.domains.apply_settings()
    await managed.domains.apply_settings()

    assert await names(managed) == ["inbox.localhost"]


async def test_those_of_the_settings_come_first_in_their_order(database: Database) -> None:
    before = Managed(database)
    await before.domains.apply_settings()
    await before.domains.add(ALICE, "a.example.com")

    managed = Managed(database, domains=["z.example.com", "b.example.com"])
    await managed.domains.apply_settings()

    wanted = ["z.example.com", "b.example.com", "a.example.com", "inbox.localhost"]
    assert await names(managed) == wanted
    assert (await managed.make()).address.endswith("@z.example.com")


async def test_one_of_two_workspaces_that_ask_at_once_gets_it(managed: Managed) -> None:
    answers = await asyncio.gather(
        *(managed.domains.add(caller, "Mail.Example.COM") for caller in (ALICE, BOB)),
        return_exceptions=True,
    )

    assert sum(isinstance(one, ClashError) for one in answers) == 1
    owners = [await names(managed, caller) for caller in (ALICE, BOB)]
    assert sum("mail.example.com" in one for one in owners) == 1


async def test_the_settings_cannot_take_anothers_domain(database: Database) -> None:
    await Managed(database).domains.add(BOB, "taken.example.com")

    with pytest.raises(ConfigError, match=r"taken\.example\.com"):
        await Managed(database, domains=["taken.example.com"]).domains.apply_settings()


async def test_a_domain_goes_only_when_no_address_of_it_leads_anywhere(managed: Managed) -> None:
    await managed.domains.add(BOB, "bob.example.com")
    inbox = await managed.make(BOB, domain="bob.example.com", local="old")
    await managed.inboxes.rotate(BOB, inbox.id)

    with pytest.raises(RefusedError, match="delete them first"):
        await managed.domains.remove(BOB, "bob.example.com")
    with pytest.raises(MissingError):
        await managed.domains.remove(ALICE, "bob.example.com")
    await managed.inboxes.delete(BOB, [inbox])
    await managed.domains.remove(BOB, "bob.example.com")

    assert (await managed.domains.add(ALICE, "bob.example.com")).workspace == "default"


async def test_one_that_stands_in_the_settings_is_removed_there(managed: Managed) -> None:
    with pytest.raises(RefusedError, match="settings"):
        await managed.domains.remove(ALICE, "in.test")


@pytest.mark.parametrize("name", ["", "localhost", "a b.test", "10.0.0.1", "x" * 64 + ".test"])
async def test_what_is_no_domain_is_refused(managed: Managed, name: str) -> None:
    with pytest.raises(ParseError, match="no mail domain"):
        await managed.domains.add(ALICE, name)


async def test_a_name_of_any_script_is_kept_in_ascii(managed: Managed) -> None:
    added = await managed.domains.add(ALICE, "Bücher.example.")

    assert added.domain == "xn--bcher-kva.example"
    assert (await managed.domains.find(ALICE, "bücher.example")).domain == added.domain


async def test_removing_a_domain_and_making_an_inbox_there_at_once_leaves_one_of_them(
    managed: Managed,
) -> None:
    for number in range(10):
        domain = f"d{number}.example.com"
        await managed.domains.add(ALICE, domain)

        made, removed = await asyncio.gather(
            managed.make(domain=domain), managed.domains.remove(ALICE, domain),
            return_exceptions=True,
        )  # fmt: skip

        assert isinstance(made, ParseError) != isinstance(removed, RefusedError), (made, removed)
