"""Fetch mail: get what a provider's hook named but did not hand over.

The fetch is part of reading the mail, so it is tried again as that is, and ends as a dead letter.
"""

from mailonce.core.mail.incoming import FetchContent, FieldsContent, MimeContent
from mailonce.errors import UnavailableError
from mailonce.net.http import GuardedClient
from mailonce.queue.configuration import ConfigurationCache
from mailonce.store.inboxes.messages import MailToRead


async def fetch_mail(
    client: GuardedClient, configuration: ConfigurationCache, mail: MailToRead, wanted: FetchContent
) -> MimeContent | FieldsContent:
    """Ask the provider of the mail's source for it.

    Raises: UnavailableError where it cannot be had now, or by this version.
    """
    del client, configuration, mail
    raise UnavailableError(f"nothing here can fetch {wanted.what[:60]!r}; update mailonce")
