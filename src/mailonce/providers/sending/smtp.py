"""Plain SMTP: https://www.rfc-editor.org/rfc/rfc5321.

The server takes responsibility with its reply to the final dot. Everything before that dot is known
to be not sent; a connection that is lost between the dot and its reply leaves it unknown, and there
is nobody to ask.
"""

from mailonce.core.sends import header_text
from mailonce.core.sends.mail_address import trouble_of_address
from mailonce.core.sends.mime import mime_of
from mailonce.core.sends.outgoing_mail import OutgoingMail
from mailonce.core.sends.sender import Sender, Tls
from mailonce.core.sends.sending import Correlation, Sending, SmtpRequest


def build(mail: OutgoingMail, correlation: Correlation, sender: Sender) -> SmtpRequest:
    """Bounces go to the sender's own address, unless another one is set up for them."""
    bounces_to = sender.options.get("mail_from") or mail.from_.address
    return SmtpRequest(
        mail_from=header_text.ascii_domain(bounces_to),
        rcpt_to=header_text.ascii_domain(mail.to.address),
        message=mime_of(mail, correlation),
    )


def check(sender: Sender) -> str | None:
    if sender.tls is Tls.NONE and sender.username and not sender.options.get("plain_login"):
        return (
            "`username` is sent in plain text without TLS; set `tls` to starttls or implicit, or "
            "`options = {plain_login = true}` where the way to the server is your own"
        )
    limit_s = sender.options.get("dot_timeout_s", 600)
    if isinstance(limit_s, bool) or not isinstance(limit_s, int | float) or not 1 <= limit_s <= 900:
        return "option `dot_timeout_s` must be a number of seconds from 1 to 900"
    mail_from = sender.options.get("mail_from")
    if mail_from is not None:
        trouble = trouble_of_address(str(mail_from))
        return None if trouble is None else f"option `mail_from` has an address {trouble}"
    return None


SENDING = Sending(
    name="smtp",
    title="SMTP",
    docs="https://www.rfc-editor.org/rfc/rfc5321",
    build=build,
    check=check,
    needs=("host",),
    settings={
        "host": "the name of the server",
        "port": "default: 587; 465 where tls is implicit, 25 where it is none",
        "tls": "starttls, implicit or none",
        "username": "the user, where the server wants a login",
        "password": "its password",
    },
    set_up=(
        "A server tells no more: only a bounce to the option `mail_from`, or a person, settles it."
    ),
    options={
        "mail_from": "the address that bounces go to",
        "plain_login": "true to log in without TLS, on a way that is your own",
        "dot_timeout_s": "how long the reply to the final dot may take; 600 by the standard",
        "helo": "the name that we greet with",
    },
    bytes_max=50 << 20,
    promise=(
        "A server that goes away between the final dot and its reply leaves the send unknown, and "
        "nothing but a bounce or a person can settle it; in every other case it is sent once."
    ),
)
