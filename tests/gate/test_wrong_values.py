"""A value that could never work is refused where it is given, with what to write."""

import sqlite3
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import psycopg_pool
import pytest

from mailonce import Client
from mailonce.errors import ConfigError, ParseError
from mailonce.gate import Policy, Response
from mailonce.gate.send_outbox import SendOutbox
from mailonce.gate.signature import mailonce, mailwebhook, standard_webhooks
from mailonce.gate.stores.asyncpg import AsyncpgStore
from mailonce.gate.stores.django import DjangoStore
from mailonce.gate.stores.psycopg import AsyncPsycopgStore, PsycopgStore
from mailonce.gate.stores.sqlite import SqliteStore
from tests.gate.places import Place
from tests.gate.rigs import django as rig

SECRET = "whsec_" + "c2VjcmV0" * 4


@pytest.mark.parametrize("make", [mailonce, standard_webhooks, mailwebhook])
def test_a_secret_is_a_text(make: Any) -> None:
    with pytest.raises(ConfigError, match=r"a secret is a text, and not bytes; .*decode"):
        make(SECRET.encode())
    with pytest.raises(ConfigError, match=r"and not list; write several one after the other"):
        make([SECRET])
    for lines in (SECRET + "\n", f"{SECRET}\r\n{SECRET}"):
        with pytest.raises(ConfigError, match=r"a secret has a line break.* `\.strip\(\)`"):
            make(lines)


@pytest.mark.parametrize("make", [mailonce, standard_webhooks, mailwebhook])
def test_a_function_that_makes_the_check_is_to_be_called(make: Any) -> None:
    with pytest.raises(ConfigError, match=rf"write `verify={make.__name__}\(SECRET\)`"):
        Policy(verify=make)

    assert Policy(verify=make(SECRET)).verify is not None


@pytest.mark.parametrize("path", [":memory:", ""])
def test_a_database_in_memory_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="give it the path of a file"):
        SqliteStore(path)


@pytest.mark.parametrize("name", ["window_s", "lease_s", "retry_after_s", "body_bytes_max"])
def test_a_limit_is_a_number(name: str) -> None:
    wrong: dict[str, Any] = {name: "1d"}

    with pytest.raises(ConfigError, match=rf"`{name}` must be a number, it is '1d'"):
        Policy(**wrong)


WRONG_POLICIES: dict[str, tuple[dict[str, Any], str]] = {
    "methods": ({"methods": "POST"}, r"write `methods=\{\"POST\"\}`"),
    "method": ({"methods": {1}}, "`methods` has 1, which is no name"),
    "header": ({"kept_headers": "X-Ticket"}, r"write `kept_headers=\{\"X-Ticket\"\}`"),
    "headers": ({"kept_headers": 5}, "`kept_headers` is a set of names, and not a int"),
    "terminal": ({"terminal": True}, "`terminal` must be `is_final`, or a function of a status"),
    "clock": ({"now_ms": 5}, "`now_ms` must be a function, it is 5"),
    "caller": ({"caller": 5}, "`caller` must be a text or a function, it is 5"),
    "operation": ({"operation": 3}, "`operation` must be a text or a function"),
    "demand": ({"key_required": "no"}, "`key_required` must be True or False, it is 'no'"),
    "bytes": ({"response_bytes_max": "1k"}, "`response_bytes_max` must be a number"),
}


@pytest.mark.parametrize("name", WRONG_POLICIES)
def test_a_choice_of_the_wrong_kind_is_refused(name: str) -> None:
    wrong, sentence = WRONG_POLICIES[name]

    with pytest.raises(ConfigError, match=sentence):
        Policy(**wrong)


def test_methods_and_headers_are_the_same_however_they_are_written() -> None:
    names: Any = ["X-Ticket"]
    policy = Policy(methods=frozenset({"post", "Put"}), kept_headers=names)
    kept = policy.kept(Response(200, b"", (("x-ticket", "7"), ("x-other", "8"))))

    assert policy.methods == {"POST", "PUT"}
    assert kept is not None
    assert kept.headers == (("x-ticket", "7"),)


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_store_of_psycopg_takes_a_pool_or_a_url(database_url: str) -> None:
    store: Any = PsycopgStore
    with (
        psycopg.connect(database_url) as connection,
        pytest.raises(ConfigError, match=r"PsycopgStore takes a URL or a ConnectionPool .* not a"),
    ):
        store(connection)
    pool = psycopg_pool.AsyncConnectionPool(database_url, open=False)

    with pytest.raises(ConfigError, match="and not a AsyncConnectionPool"):
        store(pool)
    assert AsyncPsycopgStore(pool) is not None


def test_a_store_of_asyncpg_takes_a_pool() -> None:
    with pytest.raises(ConfigError, match="AsyncpgStore takes a pool of asyncpg"):
        AsyncpgStore(object())


@pytest.mark.parametrize("given", [None, "default"])
def test_a_mail_is_owed_on_a_connection(given: Any, tmp_path: Path) -> None:
    rig.set_up()
    alias = rig.add_database(Place("sqlite", str(tmp_path / "app.db")))
    outbox: Any = SendOutbox(DjangoStore(alias), Client("http://127.0.0.1:9", "key"))

    with pytest.raises(ConfigError, match=r"the connection on which your transaction is open"):
        outbox.send(given, "ann@example.net", from_="shop@example.com", subject="a", text="b")


def circle() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"sum": Decimal("1.50")}, r"a dict that is no JSON \(.*Decimal"),
        ({"at": datetime(2026, 7, 1, tzinfo=UTC)}, "datetime"),
        (b"raw", r"a bytes that is no JSON"),
        ({("a", "b"): 1}, "keys must be str"),
        ({"share": float("nan")}, "Out of range float"),
        (["\ud800"], "surrogates not allowed"),
        (circle(), "Circular reference"),
    ],
    ids=["decimal", "time", "bytes", "key", "nan", "surrogate", "circle"],
)
def test_an_answer_that_is_no_json_is_refused_with_what_it_may_be(value: Any, reason: str) -> None:
    with pytest.raises(ConfigError, match=rf"`Response\.json` .*{reason}.*give texts, numbers"):
        Response.json(201, value)


WRONG_MAILS: dict[str, tuple[dict[str, Any], str]] = {
    "recipient": ({"to": "ann"}, "`to` has 'ann', which is no address; write it as"),
    "named": ({"to": "Ann <ann>"}, "`to` has 'ann', which is no address"),
    "one of two": ({"to": ["ann@example.net", {"address": "bob@"}]}, "`to` has 'bob@', which is"),
    "number": ({"to": [7]}, "`to` has a int; give an address as text"),
    "author": ({"from_": "shop"}, "`from_` has 'shop', which is no address"),
    "field": ({"subjekt": "News"}, "a mail has no field `subjekt`; use subject"),
    "no words": ({"text": None}, "the mail is empty; give `text`, `html` or `template`"),
    "blank words": ({"text": " ", "html": ""}, "the mail is empty: there is nothing in its `text`"),
    "no subject": ({"subject": None}, "`subject` is missing; give one, or a `template`"),
    "blank subject": ({"subject": " "}, "`subject` is empty; give one"),
    "words beside a template": ({"template": "receipt"}, "`subject` stands beside `template`"),
    "words that are none": ({"text": 7}, "`text` has a int; give text"),
}


@pytest.mark.parametrize("name", WRONG_MAILS)
def test_a_mail_that_no_server_would_take_is_not_owed(name: str, tmp_path: Path) -> None:
    wrong, sentence = WRONG_MAILS[name]
    store = SqliteStore(str(tmp_path / "app.db"))
    outbox: Any = SendOutbox(store, Client("http://127.0.0.1:9", "key"))
    right = {
        "to": "ann@example.net",
        "from_": "Shop <shop@example.com>",
        "subject": "a",
        "text": "x",
    }
    mail = right | wrong

    with sqlite3.connect(tmp_path / "app.db") as connection:
        connection.execute("BEGIN")
        with pytest.raises(ParseError, match=sentence):
            outbox.send(connection, **mail)
