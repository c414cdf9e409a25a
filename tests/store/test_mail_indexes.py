"""What finds mail by its inbox or its bytes, in a new database and one of the former version."""

import asyncio

import pytest
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, Select, select

from mailonce.queue.purge_inboxes import InboxPurge
from mailonce.store.database import open_database
from mailonce.store.dialects.contract import Database
from mailonce.store.inboxes import purge
from mailonce.store.inboxes.purge import InboxPlace
from mailonce.store.migrations.versions import m0016_mail_indexes
from mailonce.store.schema.mail_tables import BLOBS
from tests.inbox.conftest import RAW, Post, make_mail

# What undoes the migration that brought today's indexes.
FORMER = (
    "DROP INDEX mails_shared",
    "DROP INDEX mails_unread",
    "DROP INDEX mails_read",
    "ALTER TABLE mails DROP COLUMN shares_blob",
    "ALTER TABLE blobs DROP COLUMN mail",
    "CREATE UNIQUE INDEX mails_seq ON mails (inbox, seq) WHERE seq IS NOT NULL",
    "CREATE INDEX mails_unread ON mails (inbox, seq) WHERE message IS NULL AND seq IS NOT NULL",
    "CREATE INDEX mails_sha256 ON mails (workspace, sha256)",
)


def make_former(tx: Connection) -> None:
    for statement in FORMER:
        tx.exec_driver_sql(statement)
    if tx.dialect.name == "postgresql":
        tx.exec_driver_sql("DROP TYPE blob_row_2")


def migrate(tx: Connection) -> None:
    """Run that migration alone: those behind it have been run."""
    with Operations.context(MigrationContext.configure(tx)):
        m0016_mail_indexes.upgrade()


async def test_mail_of_the_former_version_keeps_its_bytes_and_goes_with_them(
    database_url: str,
) -> None:
    """One was read, one was not, and two share their bytes; a third comes with them later."""
    old = await open_database(database_url)
    post = Post(old)
    post.recorder.start()
    ann, bea = await post.make("ann@in.test"), await post.make("bea@in.test")
    read = await post.send(make_mail(RAW + b"read", "ann@in.test"))
    await post.read(read.mails[0], b"attachment")
    await post.send(make_mail(RAW, "ann@in.test", "bea@in.test"))
    await post.recorder.close()
    await old.write(make_former)
    await old.write(migrate)
    await old.close()

    database = await open_database(database_url)
    post = Post(database)
    post.recorder.start()
    purging = InboxPurge(database, unmatched_mails_max=100, unmatched_days=7)
    cat = await post.make("cat@in.test")
    await post.send(make_mail(RAW, "cat@in.test"))
    await post.send(make_mail(RAW + b"more", "ann@in.test"))
    numbers = [(row["inbox"], row["seq"]) for row in await post.mails()]
    blobs = []
    for inbox in (ann, cat, bea):
        report = await purging.delete([InboxPlace(inbox.workspace, inbox.id)], limit_s=60)
        assert report.is_complete
        blobs.append(report.counts.blobs)
    await post.recorder.close()
    blobs_left = await database.read(lambda tx: tx.execute(select(BLOBS.c.sha256)).all())
    mails_left = await post.mails()
    await database.close()

    assert sorted(numbers) == sorted(
        [(ann.id, 1), (ann.id, 2), (ann.id, 3), (bea.id, 1), (cat.id, 1)]
    )
    assert blobs == [3, 0, 1]
    assert (blobs_left, mails_left) == ([], [])


@pytest.mark.parametrize(
    ("query", "indexes"),
    [
        (select(purge.IS_UNUSED).select_from(BLOBS), {"mails_shared", "attachments_sha256"}),
        (purge.of_inbox("inb_1", is_read=True), {"mails_read"}),
        (purge.of_inbox("inb_1", is_read=False), {"mails_unread"}),
    ],
    ids=["unused", "read", "unread"],
)
async def test_what_is_deleted_is_found_by_an_index(
    database: Database, query: Select[tuple[object]], indexes: set[str]
) -> None:
    def explain(tx: Connection) -> str:
        text = str(query.compile(tx, compile_kwargs={"literal_binds": True}))
        if database.name == "sqlite":
            return str(tx.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}").all())
        # Of an empty table it would read all there is.
        tx.exec_driver_sql("SET enable_seqscan = off")
        return str(tx.exec_driver_sql(f"EXPLAIN {text}").all())

    plan = await database.read(explain)

    assert all(name in plan for name in indexes)
    assert "SCAN mails" not in plan


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
async def test_of_processes_that_accept_the_same_bytes_at_once_one_brought_them(
    database_url: str,
) -> None:
    """So that each of the others is found by them, whoever deletes the first."""
    databases = [await open_database(database_url) for _ in range(3)]
    posts = [Post(database) for database in databases]
    made = [await posts[0].make(f"n{number}@in.test") for number in range(3)]
    for post in posts:
        post.recorder.start()
    for number in range(20):
        raw = RAW + b"%d" % number
        await asyncio.gather(
            *(
                post.send(make_mail(raw, inbox.address))
                for post, inbox in zip(posts, made, strict=True)
            )
        )
    query = select(BLOBS.c.sha256, BLOBS.c.mail)
    brought = await databases[0].read(lambda tx: tx.execute(query).all())
    first = {bytes(row[0]): bytes(row[1]) for row in brought}
    mails = await posts[0].mails()
    for post, database in zip(posts, databases, strict=True):
        await post.recorder.close()
        await database.close()

    assert (len(first), len(mails)) == (20, 60)
    assert all(row["shares_blob"] == (first[row["sha256"]] != row["key"]) for row in mails)
    assert sum(row["shares_blob"] for row in mails) == 40
