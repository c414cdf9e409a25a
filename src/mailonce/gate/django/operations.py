"""Migration operations that make the gate's tables."""

from collections.abc import Iterable
from typing import Any

from django.db import router
from django.db.migrations.operations.base import Operation

from mailonce.errors import ConfigError
from mailonce.gate import schema
from mailonce.gate.sql.outbox import OUTBOX
from mailonce.gate.sql.statements import TABLE


class GateOperation(Operation):
    """Runs the gate's own SQL for the database at hand; `sqlmigrate` shows it."""

    reduces_to_sql = True
    reversible = True

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Change nothing: the models are not managed."""

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        del from_state, to_state
        if router.allow_migrate(schema_editor.connection.alias, app_label):
            for statement in self.statements(schema_editor.connection):
                schema_editor.execute(statement, params=None)

    def database_backwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        del from_state, to_state
        if router.allow_migrate(schema_editor.connection.alias, app_label):
            for statement in self.undoing(schema_editor.connection):
                schema_editor.execute(statement, params=None)

    def statements(self, connection: Any) -> Iterable[str]:
        raise NotImplementedError

    def undoing(self, connection: Any) -> Iterable[str]:
        del connection
        return ()


class MakeTables(GateOperation):
    """Make the tables, unless `AdoptTable` has converted another table before."""

    def statements(self, connection: Any) -> Iterable[str]:
        """Give what makes them.

        Raises: ConfigError where a table of that name is there, and not the gate's.
        """
        columns = _columns(connection)
        if not columns:
            return schema.statements(connection.vendor)
        if "scope" in columns:
            return ()
        raise ConfigError(
            f"there is a table {TABLE} already, which is not the gate's; run a migration with "
            "mailonce.gate.django.operations.AdoptTable before (docs/gate.md, Tables)"
        )

    def undoing(self, connection: Any) -> Iterable[str]:
        names = [OUTBOX, TABLE]
        if "unfinished" in _columns(connection):
            names.append(f"{TABLE}_never")
        return [f"DROP TABLE {name}" for name in names]

    def describe(self) -> str:
        """Say what it does, in `migrate --plan`."""
        return "Make the tables of the idempotency gate"


class AddGuard(GateOperation):
    """Add the guard to a table that was made before there was one."""

    def statements(self, connection: Any) -> Iterable[str]:
        if "unfinished" in _columns(connection):
            return ()
        return schema.guard_statements(connection.vendor)

    def describe(self) -> str:
        """Say what it does, in `migrate --plan`."""
        return "Let nobody but the gate commit an unfinished claim"


class AdoptTable(GateOperation):
    """Make a table as seed 000 prints it the gate's, with its records.

    In a migration of your own that runs before the gate's first:

        run_before = [("mailonce_gate", "0001_initial")]
        operations = [AdoptTable(scope=policy.scope_of(method="POST", path="/hooks"))]
    """

    reversible = False

    def __init__(self, scope: str) -> None:
        self.scope = scope

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        return "AdoptTable", [], {"scope": self.scope}

    def statements(self, connection: Any) -> Iterable[str]:
        return schema.adoption(connection.vendor, scope=self.scope)

    def describe(self) -> str:
        """Say what it does, in `migrate --plan`."""
        return f"Make {TABLE} the idempotency gate's"


def _columns(connection: Any) -> set[str]:
    with connection.cursor() as cursor:
        if TABLE not in connection.introspection.table_names(cursor):
            return set()
        description = connection.introspection.get_table_description(cursor, TABLE)
    return {column.name for column in description}
