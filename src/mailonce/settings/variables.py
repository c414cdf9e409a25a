"""Variables that begin with MAILONCE_ and are no setting: most are misspelt."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from mailonce.core.nearest_name import nearest_name

PREFIX = "MAILONCE_"
TABLE = "__"
# Read by the command line, the client, the pytest plugin and the examples.
OTHERS = frozenset({"MAILONCE_URL", "MAILONCE_KEY", "MAILONCE_SMTP_ADDRESS", "MAILONCE_SECRET"})
# Kubernetes sets these for a service of the name mailonce.
_KUBERNETES = re.compile(r"MAILONCE_(SERVICE_(HOST|PORT)|PORT_[0-9]+_)\w*")


@dataclass(frozen=True, slots=True)
class UnknownVariable:
    """A variable that nothing reads, and the one that was meant, as far as that can be guessed."""

    name: str
    meant: str | None

    @property
    def advice(self) -> str:
        return f"did you mean {self.meant}?" if self.meant else "remove it, or see docs/settings.md"


def unknown_variables(names: Iterable[str], settings: Collection[str]) -> list[UnknownVariable]:
    """List the variables that name no setting; a name within a table is checked with its table."""
    known = {setting.upper() for setting in settings}
    return [
        UnknownVariable(name, _meant(wanted, known))
        for name in sorted(names)
        if (wanted := name.upper()).startswith(PREFIX)
        and wanted not in OTHERS
        and _first(wanted) not in known
        and not _KUBERNETES.fullmatch(wanted)
    ]


def _first(name: str) -> str:
    return name.removeprefix(PREFIX).partition(TABLE)[0]


def _meant(name: str, known: Collection[str]) -> str | None:
    first = _first(name)
    close = nearest_name(first, known)
    return None if close is None else name.replace(PREFIX + first, PREFIX + close, 1)
