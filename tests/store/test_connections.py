"""Connections to PostgreSQL: what an operator hears when one cannot be made, and what each is."""

import asyncpg
import pytest

from mailonce.errors import ConfigError, MailonceError, UnavailableError
from mailonce.store.database import open_database
from tests.servers import PostgresServer, free_port


async def _run(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def test_a_start_that_is_refused_says_where_why_and_what_to_do(
    postgres: PostgresServer,
) -> None:
    place, nobody = f"127.0.0.1:{postgres.port}", free_port()
    await _run(postgres.url(), "CREATE ROLE weak LOGIN")
    await _run(postgres.url(), "CREATE DATABASE of_another")
    await _run(postgres.url("of_another"), "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    cases: dict[str, tuple[str, type[MailonceError]]] = {
        postgres.url("nodb"): (f"{place} has no database 'nodb'; create it", ConfigError),
        f"postgresql://ghost@{place}/postgres": (f"{place} refused the user 'ghost'", ConfigError),
        f"postgresql://weak@{place}/of_another": ("does not let 'weak' make tables", ConfigError),
        f"postgresql://postgres@127.0.0.1:{nobody}/postgres": (
            f"127.0.0.1:{nobody} cannot be reached (connection refused); start it",
            UnavailableError,
        ),
        f"postgresql://postgres@host.invalid:{nobody}/postgres": (
            f"host.invalid:{nobody} cannot be reached (its name is not known)",
            UnavailableError,
        ),
    }

    for url, (sentence, kind) in cases.items():
        with pytest.raises(MailonceError) as raised:
            await open_database(url)

        assert isinstance(raised.value, kind)
        assert sentence in str(raised.value)
        assert "\n" not in str(raised.value)


async def test_a_commit_is_flushed_whatever_the_database_was_set_to(
    postgres: PostgresServer, postgres_template: str
) -> None:
    url = postgres.url("hurried")
    await _run(postgres.url(), f"CREATE DATABASE hurried TEMPLATE {postgres_template}")
    await _run(url, "ALTER DATABASE hurried SET synchronous_commit = off")

    database = await open_database(url)

    try:
        assert (await database.durability())["synchronous_commit"] == "on"
    finally:
        await database.close()
