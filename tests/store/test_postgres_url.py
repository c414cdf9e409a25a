"""The URL of a database: libpq's options mean what they mean to libpq, or are refused by name."""

from pathlib import Path

import asyncpg
import pytest

from mailonce.errors import ConfigError
from mailonce.store.dialects.postgres.session import PostgresServer
from mailonce.store.dialects.postgres.url import read_url


def test_options_of_the_client_do_not_reach_the_server() -> None:
    url = "postgres://u:p%40ss@h1:5432,h2:5433/db?sslmode=require&connect_timeout=7&keepalives=1"

    read = read_url(url)

    assert read.dsn == "postgresql://u:p%40ss@h1:5432,h2:5433/db?sslmode=require"
    assert read.connect_timeout_s == 7


@pytest.mark.parametrize(("given", "seconds"), [("0", 5), ("1", 2), ("30", 30), ("-1", 5)])
def test_the_time_to_connect_is_read_as_libpq_reads_it(given: str, seconds: int) -> None:
    assert read_url(f"postgresql://h/db?connect_timeout={given}").connect_timeout_s == seconds


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql://u:s3c@ret@h/db", "write @ as %40"),
        ("postgresql://u:s3c/ret@h/db", "/ as %2F"),
        ("postgresql://u:s3c#ret@h/db", "# as %23"),
        ("postgresql://u:s3c[ret@h/db", "[ as %5B"),
        ("postgresql://u:x?s3c%21ret@h/db", "? as %3F"),
        ("postgresql://u:x?s3c&ret@h/db", "? as %3F"),
        ("postgresql://u:x/y?s3c@h/db", "? as %3F"),
        ("postgresql://u:s3cret%40h:5432/db", "after an @"),
        ("postgresql://u%3As3cret%40h/db", "after an @"),
        ("postgresql://u:s3cret/db", "after an @"),
        ("postgresql://u@h:5432:s3cret/db", "after an @"),
        ("postgresql://u@h:s3cret/db", "after an @"),
        ("postgresql://u@h/db?s3c%20ret=1", "an option that libpq does not know"),
        ("postgresql://u@h/db?ssl=require", "write sslmode=require"),
        ("postgresql://u@h/db?sslmdoe=require", "'sslmdoe'"),
        ("postgresql://u@h/db?channel_binding=require", "channel_binding=require"),
        ("postgresql://u@h/db?connect_timeout=soon", "whole seconds"),
        ("postgresql://u@h/db?sslmode=foo", "use one of disable, allow"),
        ("postgresql://u@h/db?sslmode=verify-full&sslrootcert=/no/ca.pem", "no such file"),
    ],
)
def test_what_cannot_be_meant_is_said_in_one_sentence(url: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_url(url)

    assert words in str(refused.value)
    assert "s3c" not in str(refused.value), "a password stays out of errors"


def test_hosts_of_every_form_are_taken() -> None:
    for host in ("h", "h:5432", "h1:1,h2", "[::1]:5432", "%2Frun%2Fpostgresql", "127.0.0.1:", ""):
        assert read_url(f"postgresql://u:p@{host}/db").dsn == f"postgresql://u:p@{host}/db"
    named = read_url("postgresql://h/db?user=me@tenant&password=a@b")
    assert named.dsn == "postgresql://h/db?user=me%40tenant&password=a%40b"


async def test_no_root_certificate_is_an_error_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PGSSLROOTCERT", raising=False)

    with pytest.raises(ConfigError, match="root certificate file"):
        await PostgresServer.find("postgresql://u@127.0.0.1:1/db?sslmode=verify-full")


async def test_asyncpg_takes_what_is_left() -> None:
    """A host that is not there: every option before it was understood."""
    read = read_url(
        "postgresql://u:p@127.0.0.1:1,127.0.0.1:2/db?sslmode=prefer&target_session_attrs=any"
        "&application_name=x&options=-c%20geqo%3Doff&gssencmode=disable&channel_binding=prefer"
    )

    with pytest.raises(OSError, match=r"refused|failed"):
        await asyncpg.connect(read.dsn, timeout=read.connect_timeout_s)
