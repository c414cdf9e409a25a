"""Which settings variables give: they win over the file, and are read at a start only."""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mailonce.settings.variables import PREFIX, TABLE

# How deep the settings are: `sources.main.options.held` and one more.
DEPTH_MAX = 5
_NOTHING = object()


@dataclass(frozen=True, slots=True)
class SetVariable:
    """A value that a variable gives to the setting at `path`; one of JSON may give several."""

    name: str
    path: tuple[str, ...]
    value: Any
    # As the variable has it: a secret may be digits alone.
    text: str


def set_variables(
    environment: Mapping[str, str], settings: Collection[str]
) -> tuple[SetVariable, ...]:
    """List what the variables of an environment set, by their names."""
    values: list[SetVariable] = []
    for name in sorted(environment):
        if not name.upper().startswith(PREFIX):
            continue
        path = tuple(name[len(PREFIX) :].lower().split(TABLE))
        if path[0] in settings:
            text = environment[name]
            values += _values(name, path, _read(text), text)
    return tuple(values)


def by_record(variables: Collection[SetVariable], table: str) -> dict[str, dict[str, str]]:
    """Give the variables of each record of a table, by the setting that they give."""
    records: dict[str, dict[str, str]] = {}
    for one in variables:
        if one.path[0] == table and len(one.path) > 2:
            records.setdefault(one.path[1], {})[one.path[2]] = one.name
    return records


def names_over_file(file: Mapping[str, Any], variables: Collection[SetVariable]) -> list[str]:
    """Name the variables that give something else than the file, which does not count there."""
    return sorted(
        {
            one.name
            for one in variables
            if _at(file, one.path) not in (_NOTHING, one.value, one.text)
        }
    )


def _read(text: str) -> Any:
    """Read a value as the file would have it; what is no JSON is a text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _values(name: str, path: tuple[str, ...], value: Any, text: str) -> Iterator[SetVariable]:
    if not isinstance(value, dict) or len(path) >= DEPTH_MAX:
        yield SetVariable(name, path, value, text)
        return
    for key, inner in value.items():
        yield from _values(name, (*path, key), inner, text)


def _at(file: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    place: Any = file
    for key in path:
        if not isinstance(place, Mapping) or key not in place:
            return _NOTHING
        place = place[key]
    return place
