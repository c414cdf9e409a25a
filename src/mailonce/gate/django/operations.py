"""A migration's step that makes the gate's tables, as every other way of making them does."""

from typing import Any

from django.db import router
from django.db.migrations.operations.base import Operation

from mailonce.gate import schema
from mailonce.gate.outbox_sql import OUTBOX
from mailonce.gate.sql import TABLE


class MakeTables(Operation):
    """Run the gate's own SQL for the database at hand; `sqlmigrate` shows it."""

    reduces_to_sql = True
    reversible = True

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Change nothing: the model is not managed."""

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        """Make them."""
        del from_state, to_state
        if router.allow_migrate(schema_editor.connection.alias, app_label):
            for statement in schema.statements(schema_editor.connection.vendor):
                schema_editor.execute(statement)

    def database_backwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        """Drop them."""
        del from_state, to_state
        if router.allow_migrate(schema_editor.connection.alias, app_label):
            for name in (OUTBOX, TABLE):
                schema_editor.execute(f"DROP TABLE {name}")

    def describe(self) -> str:
        """Say what it does, in `migrate --plan`."""
        return "Make the tables of the idempotency gate"
