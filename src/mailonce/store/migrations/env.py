"""Run migrations on the connection that the caller opened and locked."""

from alembic import context

from mailonce.store.schema.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    version_table="migrations",
    # The caller owns the transaction: it also holds the lock against other processes.
    transactional_ddl=False,
)
context.run_migrations()
