"""Mail that is owed by your own transaction: "order paid" and "receipt owed" commit together.

    outbox = SendOutbox(PsycopgStore(pool), Client())

    with pool.connection() as connection:                        # your transaction
        connection.execute("UPDATE orders SET paid = true WHERE id = 17")
        outbox.send(connection, "ann@example.net", from_="shop@example.com",
                    template="receipt", cause_id="order-17")

    while True:                                                  # any number of workers
        if not outbox.drain():
            time.sleep(1)

`send` writes one row in the transaction that is open on the connection, and calls nobody. `drain`
hands what is due to the server under the mail's own key. A crash before your commit leaves nothing;
after it, a row that the next `drain` hands over; between the server's answer and its record, the
same key again, which is the same send.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import iscoroutinefunction
from typing import Generic, NoReturn, TypeVar, Unpack

from mailonce.client.async_client import AsyncClient
from mailonce.client.blocking_client import Client
from mailonce.client.records import SendRecord
from mailonce.client.requests import new_key
from mailonce.client.send_fields import SendFields, plain_fields
from mailonce.errors import ClashError, ConfigError, MailonceError, ParseError, SizeError
from mailonce.gate.async_gate import passage_with
from mailonce.gate.base import BasePassage
from mailonce.gate.flows.outbox import GiveUpError, Pace
from mailonce.gate.outbox import AsyncEffect, AsyncOutbox, Effect, Outbox
from mailonce.gate.rules.arity import kind_of
from mailonce.gate.rules.owed_send import SEND, Recipients, check_same, owe_send, read_send
from mailonce.gate.sql.outbox import OUTBOX, Owed
from mailonce.gate.store_contract import AsyncStore, Store
from mailonce.gate.unawaited_calls import UnawaitedCall, notice_unawaited

__all__ = ["SEND", "AsyncSendOutbox", "SendOutbox"]

Handle = TypeVar("Handle")
# The same mail would be refused again, whatever an operator does; of a missing template or a wrong
# API key that is not so.
FINAL = (ParseError, ClashError, SizeError)
SUPPRESSED = "suppressed"
log = logging.getLogger("mailonce.gate")


class SendOutbox(Outbox[Handle], Generic[Handle]):
    """An outbox that owes mails to a server; `handlers` are for further topics."""

    def __init__(
        self,
        store: Store[Handle],
        client: Client,
        handlers: Mapping[str, Effect] | None = None,
        *,
        pace: Pace | None = None,
        table: str = OUTBOX,
    ) -> None:
        _check_client(client, awaits=False)
        super().__init__(store, {**(handlers or {}), SEND: self._submit}, pace=pace, table=table)
        self._client = client

    def send(
        self,
        connection: Handle,
        to: Recipients,
        *,
        from_: str,
        key: str | None = None,
        **fields: Unpack[SendFields],
    ) -> str:
        """Owe a mail in the transaction that is open on `connection`; give the key of its send.

        The key is `key`, or made of `cause_id`, `stream` and the template's name, or made anew. The
        same mail is owed once, however often it is asked for.

        Raises: ConfigError where no transaction is open, ClashError where the key is owed another
        mail, ParseError, UnavailableError where the database failed.
        """
        _check_connection(connection)
        owed = owe_send(to, from_=from_, key=_key(key, fields), fields=plain_fields(fields))
        sql = self.ways.sql
        with _writing(connection, self._store):
            new = self._store.execute_in(connection, sql.owe(owed.effect_key, SEND, owed.body))
        if not new:
            rows = self._store.execute_in(connection, sql.body(owed.effect_key))
            check_same(owed, rows[0][0] if rows else None)
        return owed.key

    def _submit(self, owed: Owed) -> None:
        to, given = read_send(owed.body)
        try:
            if isinstance(to, str | Mapping):
                sent = [self._client.send(to, **given)]
            else:
                sent = self._client.send_many(to, **given)
        except FINAL as error:
            _give_up(error)
        _note_suppressed(sent)


class AsyncSendOutbox(AsyncOutbox[Handle], Generic[Handle]):
    """The same, awaited."""

    def __init__(
        self,
        store: AsyncStore[Handle],
        client: AsyncClient,
        handlers: Mapping[str, AsyncEffect] | None = None,
        *,
        pace: Pace | None = None,
        table: str = OUTBOX,
    ) -> None:
        _check_client(client, awaits=True)
        super().__init__(store, {**(handlers or {}), SEND: self._submit}, pace=pace, table=table)
        self._client = client
        notice_unawaited(note_unawaited)

    async def send(
        self,
        connection: Handle,
        to: Recipients,
        *,
        from_: str,
        key: str | None = None,
        **fields: Unpack[SendFields],
    ) -> str:
        """Owe a mail in the transaction that is open on `connection`; see `SendOutbox.send`."""
        _check_connection(connection)
        owed = owe_send(to, from_=from_, key=_key(key, fields), fields=plain_fields(fields))
        sql = self.ways.sql
        owe = sql.owe(owed.effect_key, SEND, owed.body)
        with _writing(connection, self._store):
            new = await self._store.execute_in(connection, owe)
        if not new:
            rows = await self._store.execute_in(connection, sql.body(owed.effect_key))
            check_same(owed, rows[0][0] if rows else None)
        return owed.key

    async def _submit(self, owed: Owed) -> None:
        to, given = read_send(owed.body)
        try:
            if isinstance(to, str | Mapping):
                sent = [await self._client.send(to, **given)]
            else:
                sent = await self._client.send_many(to, **given)
        except FINAL as error:
            _give_up(error)
        _note_suppressed(sent)


def _check_client(client: Client | AsyncClient, *, awaits: bool) -> None:
    """Refuse a client of the other kind: its call would be made, and its answer never read."""
    send = None if isinstance(client, type) else getattr(client, "send", None)
    if send is None or iscoroutinefunction(send) is not awaits:
        needs, kind = ("an", "Async") if awaits else ("a", "")
        raise ConfigError(
            f"this outbox needs {needs} {kind}Client, and not {kind_of(client)}; "
            f"write `{kind}SendOutbox(store, {kind}Client())`"
        )


def _check_connection(connection: object) -> None:
    if connection is None or isinstance(connection, str):
        raise ConfigError(
            f"`send` was given {connection!r} in place of the connection on which your "
            "transaction is open; give that one (of Django it is `django.db.connection`)"
        )
    if isinstance(connection, BasePassage):
        raise ConfigError(f"`send` was given {kind_of(connection)}; give it `passage.tx`")


@contextmanager
def _writing(connection: object, store: object) -> Iterator[None]:
    """Say what to give where a store cannot use a connection: each knows those of its library."""
    try:
        yield
    except (AttributeError, TypeError) as error:
        raise ConfigError(
            f"`send` was given {kind_of(connection)}, on which {type(store).__name__} cannot "
            "write; give the connection or session of the store's own library on which your "
            "transaction is open, not a pool or an engine"
        ) from error


def note_unawaited(call: UnawaitedCall) -> None:
    """Refuse the request whose handler owed a mail in its transaction and did not await it."""
    if isinstance(call.owner, AsyncSendOutbox) and call.name == "send":
        passage = passage_with(call.arguments.get("connection"))
        if passage is not None:
            passage.forget(call.name, "outbox")


def _key(key: str | None, fields: SendFields) -> str | None:
    """Make a key where neither one nor a cause is given.

    It stands in the app's own transaction before anybody is called, so every try has the same.
    """
    return key if key is not None or fields.get("cause_id") else new_key()


def _note_suppressed(sent: Sequence[SendRecord]) -> None:
    """Log what the server has recorded and will not send; it is done here, and waits there."""
    for one in sent:
        if one.state == SUPPRESSED:
            log.warning(
                "send %s (key %s) is suppressed and was not sent; lift the suppression of its "
                "address, then run `mailonce sends resend %s`",
                one.id, one.key, one.id,
            )  # fmt: skip


def _give_up(error: MailonceError) -> NoReturn:
    raise GiveUpError(f"{type(error).__name__}: {error}") from error
