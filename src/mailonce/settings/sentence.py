"""What is wrong with a setting, in one sentence."""

from collections.abc import Collection, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from mailonce.core.nearest_name import nearest_name


def sentence_of(error: ValidationError, model: type[BaseModel]) -> str:
    """Say which setting of `model` is wrong, and what to do."""
    first = error.errors(include_url=False, include_input=False)[0]
    path = first["loc"]
    name = ".".join(map(str, path)) or "a setting"
    what = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        meant = nearest_name(str(path[-1]), _names_at(model, path[:-1]))
        if meant is None:
            return f"there is no setting `{name}`; remove it, or see docs/settings.md for its name"
        whole = ".".join([*map(str, path[:-1]), meant])
        return f"there is no setting `{name}`; did you mean `{whole}`?"
    if first["type"] == "missing":
        return f"`{name}` is missing; add it, see docs/settings.md"
    return f"`{name}` is wrong: {what[:1].lower()}{what[1:]}; see docs/settings.md"


def names_by_table(model: type[BaseModel]) -> dict[str, Collection[str]]:
    """List the settings of `model`, each with the names within it; none where it is no table."""
    return {name: _names_at(model, (name,)) for name in model.model_fields}


def _names_at(model: type[BaseModel], path: Sequence[int | str]) -> Collection[str]:
    """List the settings of the table that `path` leads to; none where it is no table of ours."""
    kind: Any = model
    for part in path:
        if _is_table(kind):
            field = kind.model_fields.get(part)
            kind = None if field is None else field.annotation
        else:
            # The values of a table of tables, such as that of the sources.
            kind = next(reversed(get_args(kind)), None)
    return kind.model_fields if _is_table(kind) else ()


def _is_table(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
