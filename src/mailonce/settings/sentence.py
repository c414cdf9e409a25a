"""What is wrong with a setting, in one sentence."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from mailonce.core.nearest_name import nearest_name

# What pydantic calls a number that is none, or that is beyond a limit.
_NUMBER_FAULTS = ("int_", "float_", "greater_than", "less_than", "finite_number")


def sentence_of(error: ValidationError, model: type[BaseModel]) -> str:
    """Say which setting of `model` is wrong, and what to do."""
    first = error.errors(include_url=False, include_input=False)[0]
    path = first["loc"]
    name = ".".join(map(str, path)) or "a setting"
    what = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        meant = nearest_name(str(path[-1]), _fields_at(model, path[:-1]))
        if meant is None:
            return f"there is no setting `{name}`; remove it, or see docs/settings.md for its name"
        whole = ".".join([*map(str, path[:-1]), meant])
        return f"there is no setting `{name}`; did you mean `{whole}`?"
    if first["type"] == "missing":
        return f"`{name}` is missing; add it, see docs/settings.md"
    if first["type"].startswith(_NUMBER_FAULTS):
        field = _fields_at(model, path[:-1]).get(str(path[-1]))
        if field is not None:
            what = f"write {_number_of(field)}"
    return f"`{name}` is wrong: {what[:1].lower()}{what[1:]}; see docs/settings.md"


def names_by_table(model: type[BaseModel]) -> dict[str, Collection[str]]:
    """List the settings of `model`, each with the names within it; none where it is no table."""
    return {name: _fields_at(model, (name,)) for name in model.model_fields}


def _number_of(field: FieldInfo) -> str:
    """Say which numbers a setting takes."""
    kind = (
        "a whole number" if int in (field.annotation, *get_args(field.annotation)) else "a number"
    )
    least, above, most = (_limit_of(field, name) for name in ("ge", "gt", "le"))
    if least is None:
        low = "" if above is None else f" above {above}"
        return kind + low + ("" if most is None else f", {most} at most")
    return f"{kind} of {least} or more" if most is None else f"{kind} from {least} to {most}"


def _limit_of(field: FieldInfo, name: str) -> Any:
    return next((getattr(one, name) for one in field.metadata if hasattr(one, name)), None)


def _fields_at(model: type[BaseModel], path: Sequence[int | str]) -> Mapping[str, FieldInfo]:
    """Give the settings of the table that `path` leads to; none where it is no table of ours."""
    kind: Any = model
    for part in path:
        if _is_table(kind):
            field = kind.model_fields.get(part)
            kind = None if field is None else field.annotation
        else:
            # The values of a table of tables, such as that of the sources.
            kind = next(reversed(get_args(kind)), None)
    return kind.model_fields if _is_table(kind) else {}


def _is_table(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
