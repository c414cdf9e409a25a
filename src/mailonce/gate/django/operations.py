"""Migration operations that make the gate's tables."""

from collections.abc import Callable, Iterable
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
    # What it does, as `migrate --plan` says it.
    purpose: str

    def describe(self) -> str:
        return self.purpose

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Change nothing: the models are not managed."""

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        del from_state, to_state
        _run(app_label, schema_editor, self.statements)

    def database_backwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        del from_state, to_state
        _run(app_label, schema_editor, self.undoing)

    def statements(self, connection: Any) -> Iterable[str]:
        raise NotImplementedError

    def undoing(self, connection: Any) -> Iterable[str]:
        del connection
        return ()


class MakeTables(GateOperation):
    """Make the tables, unless `AdoptTable` has converted another table before."""

    purpose = "Make the tables of the idempotency gate"

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


class AddGuard(GateOperation):
    """Add the guard to a table that was made before there was one."""

    purpose = "Let nobody but the gate commit an unfinished claim"

    def statements(self, connection: Any) -> Iterable[str]:
        if "unfinished" in _columns(connection):
            return ()
        return schema.guard_statements(connection.vendor)


class AdoptTable(GateOperation):
    """Make a table as seed 000 prints it the gate's, with its records.

    In a migration of your own that runs before the gate's first:

        run_before = [("mailonce_gate", "0001_initial")]
        operations = [AdoptTable(scope=policy.scope_of(method="POST", path="/hooks"))]
    """

    reversible = False
    purpose = f"Make {TABLE} the idempotency gate's"

    def __init__(self, scope: str) -> None:
        self.scope = scope

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        return "AdoptTable", [], {"scope": self.scope}

    def statements(self, connection: Any) -> Iterable[str]:
        return schema.adoption(connection.vendor, scope=self.scope)


def _run(app_label: str, schema_editor: Any, statements: Callable[[Any], Iterable[str]]) -> None:
    if router.allow_migrate(schema_editor.connection.alias, app_label):
        for statement in statements(schema_editor.connection):
            schema_editor.execute(statement, params=None)


def _columns(connection: Any) -> set[str]:
    with connection.cursor() as cursor:
        if TABLE not in connection.introspection.table_names(cursor):
            return set()
        description = connection.introspection.get_table_description(cursor, TABLE)
    return {column.name for column in description}
