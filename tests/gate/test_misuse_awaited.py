"""The same misuses of the gate's transaction as in `test_misuse`, by handlers that await."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Annotated, Any

import asyncpg
import httpx
import psycopg_pool
import pytest
from fastapi import APIRouter, Depends, FastAPI
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from starlette.responses import Response as StarletteResponse

from mailonce import AsyncClient
from mailonce.errors import ConfigError
from mailonce.gate import AsyncGate, AsyncPassage, Response
from mailonce.gate.adapters import fastapi as fastapi_adapter
from mailonce.gate.adapters.asgi import GateMiddleware, passage_of
from mailonce.gate.send_outbox import AsyncSendOutbox
from mailonce.gate.stores.asyncpg import AsyncpgStore
from mailonce.gate.stores.psycopg import AsyncPsycopgStore
from mailonce.gate.stores.sqlalchemy import AsyncSqlalchemyStore
from tests.gate.gates import ask
from tests.gate.misuses import BOTH, Misuse, judge, name_of, raw, sa_raw
from tests.gate.places import ORDER, Place
from tests.gate.rigs.web import patience, sqlalchemy_url

CREATED = Response(201)


async def aleave(connection: Any) -> None:
    async with connection:
        await connection.execute(ORDER)


async def abegin(session: AsyncSession) -> None:
    async with session.begin():
        await session.execute(text(ORDER))


async def athen(*steps: Awaitable[Any]) -> None:
    for step in steps:
        await step


async def aother(session: AsyncSession) -> None:
    async with AsyncSession(session.bind) as other:
        await other.execute(text(ORDER))
        await other.commit()


async def aforget(session: AsyncSession) -> None:
    session.execute(text(ORDER))  # type: ignore[unused-coroutine]


async def aforget_later(session: AsyncSession) -> None:
    kept = [session.scalar(text("SELECT 1"))]
    del kept


async def anothing(_: Any) -> None: ...


async def aconnection(session: AsyncSession) -> None:
    await (await session.connection()).commit()


async def driver_commit(session: AsyncSession) -> None:
    connection = await (await session.connection()).get_raw_connection()
    await connection.driver_connection.execute("COMMIT")  # type: ignore[union-attr]


ASYNCPG = [
    *raw("COMMIT", "ROLLBACK", f"{ORDER}; commit", "PREPARE TRANSACTION 'x'"),
    Misuse("fetch", lambda tx: tx.fetch("END")),
    Misuse("rollback, order", lambda tx: athen(tx.execute("ROLLBACK"), tx.execute(ORDER))),
    Misuse("close", lambda tx: tx.close()),
]
ASYNC_PSYCOPG = [
    Misuse("commit", lambda tx: tx.commit()),
    Misuse("rollback", lambda tx: tx.rollback()),
    Misuse("with", aleave),
    Misuse("close", lambda tx: tx.close()),
    *raw("COMMIT", f"{ORDER}; COMMIT", "ROLLBACK"),
]
ASYNC_SESSION = [
    Misuse("commit", lambda tx: tx.commit()),
    Misuse("rollback", lambda tx: tx.rollback()),
    Misuse("close", lambda tx: tx.close()),
    Misuse("begin", abegin, in_other_words=True),
    Misuse("connection commit", aconnection),
    *sa_raw("COMMIT", "ROLLBACK"),
]
ASYNC_ANOTHER = Misuse("another session", aother)
FORGOTTEN = [Misuse("not awaited", aforget), Misuse("kept, not awaited", aforget_later)]


def aorder(tx: Any) -> Awaitable[object]:
    made: Awaitable[object] = tx.execute(text(ORDER) if isinstance(tx, AsyncSession) else ORDER)
    return made


async def ahandle(tx: Any, misuse: Misuse, *, swallow: bool) -> None:
    await aorder(tx)
    if swallow:
        with suppress(Exception):
            await misuse.act(tx)
        with suppress(Exception):
            await aorder(tx)
    else:
        await misuse.act(tx)
        await aorder(tx)


Send = Callable[[], Awaitable[int]]


def awaited(gate: AsyncGate[Any], misuse: Misuse, *, swallow: bool) -> Send:
    async def run(passage: AsyncPassage[Any]) -> Response:
        await ahandle(passage.tx, misuse, swallow=swallow)
        return CREATED

    async def send() -> int:
        return (await gate.run(ask(), run)).response.status

    return send


def over_asgi(app: Any) -> Send:
    async def send() -> int:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://app.test") as client:
            answer = await client.post("/hooks", headers={"idempotency-key": "k-1"})
        return answer.status_code

    return send


def in_asgi(gate: AsyncGate[Any], misuse: Misuse, *, swallow: bool) -> Send:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await ahandle(passage_of(scope).tx, misuse, swallow=swallow)
        await StarletteResponse(status_code=201)(scope, receive, send)

    return over_asgi(GateMiddleware(app, gate))


def in_fastapi(gate: AsyncGate[Any], misuse: Misuse, *, swallow: bool) -> Send:
    router = APIRouter(route_class=fastapi_adapter.gated(gate))

    @router.post("/hooks", status_code=201)
    async def hook(tx: Annotated[Any, Depends(fastapi_adapter.transaction)]) -> None:
        await ahandle(tx, misuse, swallow=swallow)

    app = FastAPI()
    app.include_router(router)
    return over_asgi(app)


async def asyncpg_gate(place: Place) -> tuple[AsyncGate[Any], Any]:
    pool = await asyncpg.create_pool(place.url, min_size=1, max_size=2)
    return AsyncGate(AsyncpgStore(pool)), pool.close


async def async_psycopg_gate(place: Place) -> tuple[AsyncGate[Any], Any]:
    pool = psycopg_pool.AsyncConnectionPool(
        place.url, kwargs={"autocommit": True}, min_size=1, max_size=2, open=False
    )
    await pool.open()
    return AsyncGate(AsyncPsycopgStore(pool)), pool.close


async def async_session_gate(place: Place) -> tuple[AsyncGate[Any], Any]:
    engine = create_async_engine(
        sqlalchemy_url(place), pool_size=2, max_overflow=0, pool_use_lifo=True,
        connect_args=patience(place, seconds=0.2),
    )  # fmt: skip
    store: AsyncSqlalchemyStore[Any] = AsyncSqlalchemyStore(async_sessionmaker(engine))
    return AsyncGate(store), engine.dispose


AWAITED = [
    (dialect, adapter, gate, misuse)
    for adapter, gate, misuses in (
        (awaited, asyncpg_gate, ASYNCPG),
        (awaited, async_psycopg_gate, ASYNC_PSYCOPG),
        (awaited, async_session_gate, [*ASYNC_SESSION, ASYNC_ANOTHER, *FORGOTTEN]),
        (in_asgi, asyncpg_gate, ASYNCPG[:2]),
        (in_asgi, async_session_gate, ASYNC_SESSION[:3]),
        (in_fastapi, async_session_gate, [*ASYNC_SESSION[:3], ASYNC_ANOTHER, FORGOTTEN[0]]),
    )
    for dialect in (BOTH if gate is async_session_gate else BOTH[1:])
    for misuse in misuses
]


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize("swallow", [False, True], ids=["raised", "swallowed"])
@pytest.mark.parametrize(
    ("place", "adapter", "open_gate", "misuse"), AWAITED, ids=name_of, indirect=["place"]
)
async def test_an_awaited_handler_cannot_part_its_change_from_the_claim(
    place: Place, adapter: Any, open_gate: Any, misuse: Misuse, *, swallow: bool
) -> None:
    gate, close = await open_gate(place)
    send = adapter(gate, misuse, swallow=swallow)
    outcomes = []
    for _ in range(3):
        try:
            outcomes.append((str(await send()), ""))
        except Exception as error:
            outcomes.append(("raised", f"{type(error).__name__}: {error}"))
    try:
        judge(place, misuse, outcomes, swallow=swallow)
        if outcomes[0][0] != "201":
            # On the connections that the refused ones gave back.
            repaired = adapter(gate, Misuse("none", anothing), swallow=False)
            assert [await repaired(), await repaired()] == [201, 201]
            assert (place.orders(), place.records()) == (2, 1)
    finally:
        await asyncio.wait_for(close(), 60)


async def test_postgresql_itself_refuses_a_commit_below_every_guard(postgres_place: Place) -> None:
    """The driver's own connection, which no listener of SQLAlchemy's sees."""
    postgres_place.empty()
    gate, close = await async_session_gate(postgres_place)
    send = awaited(gate, Misuse("driver", driver_commit), swallow=False)

    with pytest.raises(asyncpg.ForeignKeyViolationError, match="remove_the_commit"):
        await send()
    await close()

    assert (postgres_place.orders(), postgres_place.records()) == (0, 0)


async def failing_savepoint(tx: Any) -> None:
    """Undo one order by a savepoint, in the way of each driver."""
    savepoint = tx.begin_nested if isinstance(tx, AsyncSession) else tx.transaction
    with suppress(ZeroDivisionError):
        async with savepoint():
            await aorder(tx)
            raise ZeroDivisionError


@pytest.mark.parametrize("open_gate", [asyncpg_gate, async_psycopg_gate, async_session_gate])
async def test_savepoints_are_the_handlers_own(postgres_place: Place, open_gate: Any) -> None:
    postgres_place.empty()
    gate, close = await open_gate(postgres_place)
    send = awaited(gate, Misuse("savepoint", failing_savepoint), swallow=False)

    answers = [await send(), await send()]
    await close()

    assert answers == [201, 201]
    assert (postgres_place.orders(), postgres_place.records()) == (2, 1)


@pytest.mark.parametrize("open_gate", [asyncpg_gate, async_session_gate])
async def test_an_exhausted_pool_is_503_within_a_bound_and_recovers(
    postgres_place: Place, open_gate: Any
) -> None:
    postgres_place.empty()
    gate, close = await open_gate(postgres_place)
    if isinstance(gate.store, AsyncpgStore):
        gate.store._acquire_s = 0.2
    else:
        gate.store._source.kw["bind"].pool._timeout = 0.2
    held = [await gate.enter(ask(f"held-{number}")) for number in range(2)]
    send = awaited(gate, Misuse("none", anothing), swallow=False)

    busy = await send()
    for passage in held:
        await passage.abandon()
    free = await send()
    await close()

    assert (busy, free) == (503, 201)
    assert (postgres_place.orders(), postgres_place.records()) == (2, 1)


async def test_after_the_answer_there_is_no_transaction_to_write_in(postgres_place: Place) -> None:
    postgres_place.empty()
    gate, close = await asyncpg_gate(postgres_place)
    kept: list[Any] = []

    async def run(passage: AsyncPassage[Any]) -> Response:
        kept.extend((passage, passage.tx))
        return CREATED

    await gate.run(ask(), run)
    with pytest.raises(ConfigError, match="inside the handler"):
        _ = kept[0].tx
    with pytest.raises(asyncpg.InterfaceError, match="released"):
        await kept[1].execute(ORDER)
    await close()

    assert postgres_place.orders() == 0


def forget_owe(passage: AsyncPassage[Any], _: AsyncSendOutbox[Any]) -> None:
    passage.owe("receipt", b"lost")  # type: ignore[unused-coroutine]


def forget_send(passage: AsyncPassage[Any], outbox: AsyncSendOutbox[Any]) -> None:
    outbox.send(passage.tx, "ann@example.net", from_="shop@example.com", text="x")  # type: ignore[unused-coroutine]


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize("forget", [forget_owe, forget_send])
@pytest.mark.parametrize("open_gate", [asyncpg_gate, async_psycopg_gate, async_session_gate])
async def test_an_effect_that_nobody_awaits_is_refused(
    postgres_place: Place, open_gate: Any, forget: Any
) -> None:
    postgres_place.empty()
    gate, close = await open_gate(postgres_place)
    outbox = AsyncSendOutbox(gate.store, AsyncClient("http://127.0.0.1:9", "mok_not_asked"))
    router = APIRouter(route_class=fastapi_adapter.gated(gate))

    @router.post("/hooks", status_code=201)
    async def hook(
        passage: Annotated[AsyncPassage[Any], Depends(fastapi_adapter.passage)],
    ) -> None:
        await aorder(passage.tx)
        forget(passage, outbox)

    async def nested(passage: AsyncPassage[Any]) -> Response:
        """The fault is that of the passage whose transaction it was, not of the innermost."""

        async def inner(_: AsyncPassage[Any]) -> Response:
            forget(passage, outbox)
            return CREATED

        assert (await gate.run(ask("inner"), inner)).response.status == 201
        return CREATED

    app = FastAPI()
    app.include_router(router)
    for _ in range(2):
        with pytest.raises(ConfigError, match="did not await it"):
            await over_asgi(app)()
    kept = (postgres_place.orders(), postgres_place.records(), (await outbox.counts())["due"])
    with pytest.raises(ConfigError, match="did not await it"):
        await gate.run(ask("outer"), nested)
    await asyncio.wait_for(close(), 60)

    assert kept == (0, 0, 0)
    assert postgres_place.records() == 1


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
async def test_what_others_forget_to_await_is_not_the_handlers_fault(place: Place) -> None:
    """A coroutine of another session, or of the app's own, that is freed while a handler runs."""
    place.empty()
    gate, close = await async_session_gate(place)
    store: Any = gate.store
    engine = store._source.kw["bind"]

    async def own() -> None: ...

    async def forget(session: AsyncSession) -> None:
        async with AsyncSession(engine) as other:
            other.execute(text(ORDER))  # type: ignore[unused-coroutine]
        own()  # type: ignore[unused-coroutine]
        await session.execute(text(ORDER))

    answer = await awaited(gate, Misuse("others", forget), swallow=False)()
    await close()

    assert (answer, place.orders(), place.records()) == (201, 3, 1)
