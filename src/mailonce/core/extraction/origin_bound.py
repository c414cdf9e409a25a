"""Codes that are bound to an origin: a last line such as `@example.com #747723`.

The form is that of the WICG's "Origin-bound one-time codes delivered via SMS": only the last line
counts, and it starts with the host. A line like it in the middle of a mail means nothing.
"""

import re
from dataclasses import dataclass

# Any token is legal there; we take what could be a code.
_LINE = re.compile(
    r"@(?P<host>(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.){1,8}[a-z]{2,24})"
    r" #(?P<code>[A-Za-z0-9-]{4,16})(?: @[^ ]{1,253})?(?: |$)"
)


@dataclass(frozen=True, slots=True)
class OriginBoundCode:
    code: str
    host: str
    start: int


def find_origin_bound_code(text: str) -> OriginBoundCode | None:
    """Read the last line that is not empty."""
    body = text.rstrip("\n ")
    line_start = body.rfind("\n") + 1
    line = body[line_start : line_start + 600]
    match = _LINE.match(line)
    if match is None:
        return None
    return OriginBoundCode(match["code"], match["host"], line_start + match.start("code"))
