"""Message ids and the threads that they make."""

import re
from hashlib import sha256

from mailonce.core.mail.budget import DigestBudget
from mailonce.core.mail.problem import MailProblem

ID_CHARS_MAX = 500
_BRACKETS = re.compile(r"<([^<>]{1,998})>")
_SPACES = re.compile(r"\s+")
_UNSTORABLE = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


def read_message_id(value: str | None) -> str | None:
    """Read an id without its brackets; its case is kept. None where there is none."""
    if not value:
        return None
    match = _BRACKETS.search(value[:2_000])
    text = match[1] if match else value[:2_000].strip("<> \t")
    return _clean(text) or None


def read_references(values: list[str], budget: DigestBudget) -> tuple[str, ...]:
    """Read a list of ids in its order; of too many, the first and the last ones are kept."""
    ids: dict[str, None] = {}
    for value in values:
        for match in _BRACKETS.finditer(value):
            one = _clean(match[1])
            if one and ("@" in one or len(one) > 8):
                ids.setdefault(one)
    most = budget.limits.references_max
    if len(ids) <= most:
        return tuple(ids)
    budget.note(MailProblem.TOO_MANY_REFERENCES)
    every = list(ids)
    # The first is the root of the thread, the last ones are the nearest.
    return (every[0], *every[-(most - 1) :])


def thread_of(
    message_id: str | None, references: tuple[str, ...], in_reply_to: tuple[str, ...]
) -> str | None:
    """Give the key of the conversation: the id of its first mail, as far as this mail tells."""
    root = next(iter((*references, *in_reply_to)), message_id)
    return None if root is None else sha256(root.encode()).hexdigest()[:32]


def _clean(text: str) -> str:
    return _UNSTORABLE.sub("\ufffd", _SPACES.sub("", text))[:ID_CHARS_MAX]
