"""The parts of a process that deal with mail."""

from dataclasses import dataclass

from mailonce.inbox.accept import MailAcceptance
from mailonce.inbox.refusals import MailRefusals
from mailonce.inbox.waiting import InboxReaders


@dataclass(frozen=True, slots=True)
class MailParts:
    """Taking mail in, reading it, and what was refused."""

    acceptance: MailAcceptance
    readers: InboxReaders
    refusals: MailRefusals
