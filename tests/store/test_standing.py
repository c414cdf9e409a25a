"""Expectations that are read together are what each would be alone, and are found by key."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, insert
from sqlalchemy.sql.compiler import SQLCompiler

from mailonce.core.expectations.consumption import Consumption, ConsumptionState
from mailonce.core.expectations.expectation import (
    Expectation,
    ExpectationPolicy,
    ExpectationState,
)
from mailonce.core.expectations.match_mail import MailOutcome
from mailonce.core.expectations.settle import CandidateRecord, MailMatch
from mailonce.core.extraction.extraction import ArtifactKind
from mailonce.store.dialects.contract import Database, Tx
from mailonce.store.expectations import consumptions, expectations, matches, standing
from mailonce.store.schema.mail_tables import MAILS


def id_of(number: int) -> bytes:
    return number.to_bytes(16, "big")


def make_expectation(number: int, **fields: Any) -> Expectation:
    return Expectation(
        id=id_of(number),
        workspace="default",
        inbox=f"inb_{number}",
        address="ann@in.test",
        subject=f"inb_{number}",
        policy=ExpectationPolicy(kind=ArtifactKind.CODE),
        watermark=5,
        opened_ms=0,
        deadline_ms=1,
        **fields,
    )


def make_mail(seq: int, outcome: MailOutcome, *artifacts: bytes) -> MailMatch:
    return MailMatch(
        message=f"msg_{seq}",
        seq=seq,
        received_ms=seq,
        sender="shop@example.com",
        outcome=outcome,
        reason="",
        is_stale=False,
        matchers=(),
        candidates=tuple(
            CandidateRecord(artifact=one, score=1, rule="", part="text", start=0, end=6)
            for one in artifacts
        ),
    )


def make_consumption(number: int, expectation: int, artifact: bytes) -> Consumption:
    return Consumption(
        id=id_of(number),
        workspace="default",
        expectation=id_of(expectation),
        artifact=artifact,
        by="key_1",
        consume_key=b"k%d" % number,
        token=1,
        state=ConsumptionState.LEASED,
        leased_ms=0,
        lease_ms=10,
    )


async def keep(database: Database, *kept: Expectation) -> None:
    def work(tx: Tx) -> None:
        for one in kept:
            expectations.put(tx, one)

    await database.write(work)


async def load(database: Database, numbers: Sequence[int]) -> dict[bytes, Any]:
    ids = [id_of(number) for number in numbers]
    return await database.read(lambda tx: standing.load_all(tx, ids))


async def test_each_has_its_own_mails_and_the_consumptions_of_what_they_had(
    database: Database,
) -> None:
    await keep(
        database,
        make_expectation(1),
        make_expectation(2),
        make_expectation(3),
        make_expectation(4, state=ExpectationState.CONSUMED),
    )

    def work(tx: Tx) -> None:
        matches.put(tx, id_of(1), [make_mail(6, MailOutcome.MATCHED, b"a", b"b")])
        matches.put(
            tx,
            id_of(2),
            [make_mail(8, MailOutcome.MATCHED, b"a"), make_mail(7, MailOutcome.QUARANTINED)],
        )
        matches.put(tx, id_of(3), [make_mail(6, MailOutcome.UNMATCHED, b"a")])
        # One is had by another expectation of the same subject; of the other the mail is deleted.
        consumptions.put(tx, make_consumption(11, 2, b"a"))
        consumptions.put(tx, make_consumption(12, 4, b"c"))

    await database.write(work)

    known = await load(database, [4, 3, 2, 1, 99])

    assert sorted(known) == [id_of(number) for number in (1, 2, 3, 4)]
    shown = {
        id_[-1]: ([mail.seq for mail in one.mails], [used.id[-1] for used in one.consumptions])
        for id_, one in known.items()
    }
    assert shown == {1: ([6], [11]), 2: ([7, 8], [11]), 3: ([], []), 4: ([], [12])}
    alone = {number: (await load(database, [number]))[id_of(number)] for number in (1, 2, 3, 4)}
    assert {id_[-1]: one for id_, one in known.items()} == alone


async def test_however_many_mails_there_are_only_the_latest_are_read(database: Database) -> None:
    await keep(database, make_expectation(1), make_expectation(2))
    many = matches.MATCHES_MAX + 5

    def work(tx: Tx) -> None:
        for number in (1, 2):
            mails = [make_mail(seq, MailOutcome.MATCHED) for seq in range(10, 10 + many)]
            held = [make_mail(seq, MailOutcome.QUARANTINED) for seq in range(500, 520)]
            matches.put(tx, id_of(number), [*mails, *held])

    await database.write(work)

    known = await load(database, [1, 2])

    expected = [*range(15, 10 + many), *range(510, 520)]
    assert [[mail.seq for mail in one.mails] for one in known.values()] == [expected] * 2


async def test_mail_that_is_not_read_yet_is_seen_behind_the_watermark(database: Database) -> None:
    await keep(database, *(make_expectation(number) for number in (1, 2, 3)))

    def work(tx: Tx) -> None:
        for number, seq in ((1, 6), (2, 5)):
            columns = {
                column.name: column.type.python_type() for column in MAILS.c if not column.nullable
            }
            named = {"inbox": f"inb_{number}", "seq": seq, "key": id_of(number), "state": 0}
            tx.execute(insert(MAILS).values(**{**columns, **named}))

    await database.write(work)

    known = await load(database, [1, 2, 3])

    assert {id_[-1]: one.is_reading for id_, one in known.items()} == {1: True, 2: False, 3: False}


def test_a_list_of_ids_has_one_of_few_lengths() -> None:
    lengths = {len(standing.padded([b"x"] * many)) for many in range(1, 129)}

    assert lengths == {1, 4, 16, 64, 128}
    assert standing.padded([b"x", b"y"]) == [b"x", b"y", b"y", b"y"]


async def test_they_are_found_by_their_key(database: Database) -> None:
    def explain(tx: Connection) -> str:
        compiled = standing.LOAD.compile(tx)
        assert isinstance(compiled, SQLCompiler)
        made = compiled.construct_expanded_state({"ids": [id_of(1), id_of(2)]})
        values = tuple(made.parameters[name] for name in made.positiontup or ())
        if database.name == "sqlite":
            return str(tx.exec_driver_sql(f"EXPLAIN QUERY PLAN {made.statement}", values).all())
        # Of an empty table it would read all there is.
        tx.exec_driver_sql("SET enable_seqscan = off")
        return str(tx.exec_driver_sql(f"EXPLAIN {made.statement}", values).all())

    plan = await database.read(explain)

    for walk in ("SCAN expectations", "SCAN expectation_mails", "SCAN mails", "Seq Scan", "hashed"):
        assert walk not in plan
    assert "mails_unread" in plan
