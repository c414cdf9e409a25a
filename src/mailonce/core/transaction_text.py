"""Which SQL texts begin or end a transaction; a handler's transaction is not its own to end."""

import re
from functools import lru_cache

_SPACE = r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*"
_WORDS = (
    r"(?:commit|end|abort|begin|start\s+transaction|prepare\s+transaction|rollback(?!"
    r"(?:\s+(?:work|transaction))?\s+to\b))\b"
)
_ENDING = re.compile(f"(?:^|;){_SPACE}{_WORDS}", re.IGNORECASE | re.DOTALL)
_SUSPECT = re.compile("commit|rollback|abort|begin|end|start|prepare", re.IGNORECASE)
# What is quoted is data, or the body of a function.
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|(\$\w*\$).*?\1", re.DOTALL)
# An app has few statements, and sends them often.
LENGTH_KEPT = 2000


def ends_transaction(text: str) -> bool:
    """Say whether an SQL text would begin or end a transaction; savepoints do not.

    >>> ends_transaction("insert into t values (1); COMMIT"), ends_transaction("ROLLBACK TO s")
    (True, False)
    """
    return (_judged if len(text) < LENGTH_KEPT else _judge)(text)


def _judge(text: str) -> bool:
    if _SUSPECT.search(text) is None:
        return False
    return _ENDING.search(_QUOTED.sub("''", text) if ";" in text else text) is not None


_judged = lru_cache(maxsize=512)(_judge)
