"""Classify a bounce by its SMTP reply, where the provider gives the reply but no class."""

import re

from mailonce.core.events.event import Bounce

# As receiving servers use them: "550 5.1.1 …", "550-5.1.1 …", "smtp;550 …", "[mx] said: 550 …".
# Parts of addresses such as 4.7.0.12 are neither.
_ENHANCED = re.compile(r"(?<![\d.])([45])\.(\d{1,3})\.(\d{1,3})(?!\.?\d)")
_REPLY = re.compile(r"(?<![\w.-])([45]\d\d)(?=[\s:;,.)\]-]|$)")

# There is no such mailbox. 554 and its neighbours say only that something failed.
_HARD_REPLIES = frozenset({"550", "551", "553"})
# "Exceeded storage allocation".
_FULL_REPLY = "552"


def bounce_of(answer: str) -> Bounce:
    """Classify by the enhanced status code, else by the reply code, else not at all.

    https://www.rfc-editor.org/rfc/rfc3463. A full mailbox and a failed route are permanent to SMTP,
    but not to the address.
    """
    enhanced = _ENHANCED.search(answer)
    if enhanced is not None:
        class_, subject, detail = enhanced.groups()
        if class_ == "4" or subject == "4" or (subject, detail) == ("2", "2"):
            return Bounce.SOFT
        if subject == "1":
            return Bounce.HARD
        if subject == "7":
            return Bounce.BLOCKED
    reply = _REPLY.search(answer)
    if reply is None:
        return Bounce.UNDETERMINED
    code = reply.group(1)
    if code in _HARD_REPLIES:
        return Bounce.HARD
    return Bounce.SOFT if code[0] == "4" or code == _FULL_REPLY else Bounce.UNDETERMINED
