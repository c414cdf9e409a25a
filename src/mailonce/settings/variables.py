"""Variables that begin with MAILONCE_ and are no setting: most are misspelt."""

import re
from collections.abc import Collection, Iterable, Mapping
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


def unknown_variables(
    names: Iterable[str], settings: Mapping[str, Collection[str]]
) -> list[UnknownVariable]:
    """List the variables that name no setting; a name within a table is checked with its table.

    `settings` has the names within each table, and none for a setting that is no table.
    """
    known = {setting.upper(): inner for setting, inner in settings.items()}
    return [
        UnknownVariable(name, _within_table(wanted, known) or _meant(wanted, known))
        for name in sorted(names)
        if (wanted := name.upper()).startswith(PREFIX)
        and wanted not in OTHERS
        and _first(wanted) not in known
        and not _KUBERNETES.fullmatch(wanted)
    ]


def _first(name: str) -> str:
    return name.removeprefix(PREFIX).partition(TABLE)[0]


def _within_table(name: str, known: Mapping[str, Collection[str]]) -> str | None:
    """Guess MAILONCE_SMTP__PORT from MAILONCE_SMTP_PORT, the commonest mistake."""
    for table, inner in known.items():
        start = f"{PREFIX}{table}_"
        if name.startswith(start) and (meant := nearest_name(name.removeprefix(start), inner)):
            return f"{PREFIX}{table}{TABLE}{meant.upper()}"
    return None


def _meant(name: str, known: Collection[str]) -> str | None:
    first = _first(name)
    close = nearest_name(first, known)
    return None if close is None else name.replace(PREFIX + first, PREFIX + close, 1)
