"""Hostile and awkward mails, by name, each with what a correct agent does with it.

Rule: A mail says what may be done with it, whatever our own server makes of it.
Imports: `errors`, `testing.smtp_sender`.
"""

from mailonce.testing.hostile.code_mails import CODE_MAILS
from mailonce.testing.hostile.hidden_mails import HIDDEN_MAILS
from mailonce.testing.hostile.hostile_mail import HostileMail, SafeUse
from mailonce.testing.hostile.link_mails import LINK_MAILS
from mailonce.testing.hostile.sender_mails import SENDER_MAILS
from mailonce.testing.hostile.structure_mails import STRUCTURE_MAILS

__all__ = ["HostileMail", "SafeUse", "hostile_mails"]


def hostile_mails(*names: str) -> list[HostileMail]:
    """Give all of them in their order, or those of the given names.

    Raises: KeyError where there is none of a name.
    """
    every = [*CODE_MAILS, *SENDER_MAILS, *HIDDEN_MAILS, *STRUCTURE_MAILS, *LINK_MAILS]
    if not names:
        return every
    known = {one.name: one for one in every}
    return [known[name] for name in names]
