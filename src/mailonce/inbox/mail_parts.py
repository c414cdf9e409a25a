"""The parts of a process that deal with mail."""

from dataclasses import dataclass

from mailonce.core.signatures.file_link import FileLinks
from mailonce.inbox.accept import MailAcceptance
from mailonce.inbox.listening import Listening
from mailonce.inbox.refusals import MailRefusals
from mailonce.inbox.streams import InboxStreams
from mailonce.inbox.waiting import InboxReaders
from mailonce.queue.purge_inboxes import InboxPurge


@dataclass(frozen=True, slots=True)
class MailParts:
    """Taking mail in, reading it, what was refused, deletion, and links to attachments."""

    acceptance: MailAcceptance
    readers: InboxReaders
    refusals: MailRefusals
    purge: InboxPurge
    links: FileLinks
    # Started and stopped by whoever runs the SMTP door.
    listening: Listening
    streams: InboxStreams
