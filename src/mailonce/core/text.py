"""Text that every database holds."""

import re

UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def storable(text: str, *, chars_max: int) -> str:
    """Make a text that every database holds: no NUL, no lone surrogate, not too long."""
    return UNSTORABLE.sub("\ufffd", text[:chars_max])
