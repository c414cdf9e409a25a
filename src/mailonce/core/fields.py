"""The settings among a record's fields, so that storage, API and CLI need no list of their own."""

from collections.abc import Container
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class SettingFields:
    """The names of settings in the record's order; `lists` are those with several values."""

    names: tuple[str, ...]
    lists: frozenset[str]

    def of(self, record: object) -> dict[str, Any]:
        return {name: getattr(record, name) for name in self.names}


def setting_fields(record: type[Any], *, but: Container[str]) -> SettingFields:
    """List the settings of a record: all its fields `but` its identity and its state.

    A field whose default is a tuple has several values.
    """
    settings = [field for field in fields(record) if field.name not in but]
    lists = frozenset(field.name for field in settings if isinstance(field.default, tuple))
    return SettingFields(tuple(field.name for field in settings), lists)
