"""The configuration's version: whoever changes a source or a key raises it."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, update

from mailonce.store.tables import HEAD

Row = Mapping[Any, Any]


def bump(tx: Connection) -> None:
    """Tell every process, by the next version, to read the configuration again."""
    tx.execute(update(HEAD).values(configuration=HEAD.c.configuration + 1))
