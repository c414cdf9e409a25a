"""Stamps as users see them."""

from mailonce.core.events.facts import Stamp, stamp_ms
from mailonce.core.moment import moment


def moment_of(stamp: Stamp | None) -> str | None:
    """Write the event time that a stamp holds."""
    return None if stamp is None else moment(stamp_ms(stamp))
