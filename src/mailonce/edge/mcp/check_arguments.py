"""See that the arguments of a call fit its tool, and name the one that does not."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import jsonschema

from mailonce.edge.mcp.tools import ToolRecord
from mailonce.errors import ParseError

# What each kind of expectation needs beside its kind.
NEEDED_BY_KIND = {"link": "link_hosts", "state": "states"}
# Only such a word of the caller's is shown again.
_NAME = re.compile(r"[a-z_]{1,40}")
_TYPES = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
}


def check_arguments(tool: ToolRecord, arguments: Mapping[str, Any]) -> None:
    """See that arguments fit the schema of a tool.

    Raises: ParseError, one sentence that names the argument.
    """
    missing = [name for name in tool.required if name not in arguments]
    if missing:
        raise ParseError(f"{_are(missing)} missing; {tool.name} needs {_named(tool.required)}")
    unknown = [name for name in arguments if name not in tool.parameters]
    if unknown:
        which = [name for name in unknown if _NAME.fullmatch(name)]
        subject = f"{_named(which)} is" if len(which) == 1 else "an argument is"
        raise ParseError(f"{subject} not known; {tool.name} takes {_named(list(tool.parameters))}")
    try:
        jsonschema.validate(arguments, tool.input_schema)
    except jsonschema.ValidationError as error:
        raise ParseError(_trouble(tool, error)) from error
    kind = arguments.get("kind")
    needed = NEEDED_BY_KIND.get(kind) if isinstance(kind, str) else None
    if needed in tool.parameters and not arguments.get(str(needed)):
        raise ParseError(f"`{needed}` is missing; {tool.name} needs it for the kind {kind}")


def _trouble(tool: ToolRecord, error: jsonschema.ValidationError) -> str:
    where = ".".join(str(part) for part in error.absolute_path)
    wanted: Any = error.validator_value
    match error.validator:
        case "enum":
            return f"`{where}` of {tool.name} is one of {', '.join(map(str, wanted))}; use one"
        case "type":
            return f"`{where}` of {tool.name} must be {_TYPES.get(str(wanted), wanted)}; change it"
        case word:
            return f"`{where}` of {tool.name} does not fit {word} {wanted}; change it"


def _named(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _are(names: Sequence[str]) -> str:
    return f"{_named(names)} {'is' if len(names) == 1 else 'are'}"
