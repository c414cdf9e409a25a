"""Text that every database can store."""

import re

UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def storable(text: str, *, chars_max: int) -> str:
    """Make a text storable in every database: no NUL, no lone surrogate, not too long."""
    return UNSTORABLE.sub("\ufffd", text[:chars_max])
