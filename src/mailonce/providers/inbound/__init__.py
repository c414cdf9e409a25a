"""Mail that providers hand over: one pure file for each, ending in its `INBOUND` record.

Rule: `parse_mail` reads mail out of what the provider's own `parse` was given; files do not know
each other, and no header decides for whom a mail is unless the source's option says so.
Imports: `core`, `errors`.
"""

from functools import cache
from importlib import import_module

from mailonce.core.arrivals.mail_fetch import MailFetch

# The providers whose hooks only announce a mail, or a part of it.
FETCHING = ("brevo", "mailgun", "resend", "ses")


@cache
def find(what: str) -> MailFetch | None:
    """Find the way of fetching that a `FetchContent` names, such as "resend.email"; or None."""
    provider = what.partition(".")[0]
    if provider not in FETCHING:
        return None
    fetches: tuple[MailFetch, ...] = import_module(f"{__name__}.{provider}").INBOUND.fetches
    return next((fetch for fetch in fetches if fetch.what == what), None)
