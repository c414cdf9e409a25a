"""Help as other tools print it: `NAME` and `[ID]...`, `TEXT` and `PATH`, and nothing at a flag.

Typer would write `{NAME}`, `<list[str]>` and `<bool>`.
"""

from typing import Any

from typer.core import TyperArgument, TyperOption

TYPES = {"int": "NUMBER", "float": "NUMBER", "path": "PATH"}


def simplify(parameters: list[Any]) -> list[Any]:
    """Have a command's parameters shown plainly; give the same ones."""
    for parameter in parameters:
        if isinstance(parameter, TyperOption):
            _simplify_option(parameter)
        elif isinstance(parameter, TyperArgument):
            _simplify_argument(parameter)
    return parameters


def _simplify_option(option: TyperOption) -> None:
    if option.metavar is not None:
        return
    kind = option.type_descriptor
    if option.is_flag:
        option.metavar = ""
    elif kind.is_choice:
        option.metavar = "|".join(str(getattr(one, "value", one)) for one in kind.choices or ())
    else:
        option.metavar = TYPES.get(_type_name(option), "TEXT")


def _type_name(option: TyperOption) -> str:
    kind = option.type_descriptor
    if kind.is_path:
        return "path"
    return str(kind.ranged_type_name) if kind.is_ranged else option.bare_type()


def _simplify_argument(argument: TyperArgument) -> None:
    name = argument.display_name_raw
    usage = name if argument.required else f"[{name}]"
    usage += "..." if argument.nargs != 1 else ""
    # Typer has no setting for these.
    argument.get_usage_pieces = lambda ctx: [usage]  # type: ignore[method-assign]  # noqa: ARG005
    argument.display_type_rich = lambda ctx: None  # type: ignore[method-assign]  # noqa: ARG005
