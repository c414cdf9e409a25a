"""Mail that a Cloudflare Email Worker posts: its own bytes, with the envelope in headers."""

from collections.abc import Mapping
from urllib.parse import unquote

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import InboundHook
from mailonce.core.arrivals.source import Source
from mailonce.core.mail.incoming import ContentFormat, IncomingMail, MimeContent
from mailonce.core.reading import mail_fields

# Percent-encoded, as `encodeURIComponent` does it.
MAIL_FROM_HEADER = "x-mailonce-mail-from"
RECIPIENT_HEADER = "x-mailonce-recipient"


def parse_mail(arrival: Arrival, source: Source) -> IncomingMail:
    headers = arrival.headers
    return IncomingMail(
        envelope=mail_fields.envelope_of(
            _address(headers, MAIL_FROM_HEADER), _address(headers, RECIPIENT_HEADER)
        ),
        content=MimeContent(arrival.body),
        is_signed=source.is_signed,
    )


def _address(headers: Mapping[str, str], name: str) -> str | None:
    written = headers.get(name)
    return None if written is None else unquote(written)


INBOUND = InboundHook(
    docs="https://developers.cloudflare.com/email-routing/email-workers/",
    content=(ContentFormat.MIME,),
    envelope="`message.from`, `message.to`",
    signs_mail=True,
    # The mail's own sender tries again, as it does for any server that is away.
    retry_horizon_s=5 * 86_400,
)
