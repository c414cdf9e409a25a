"""Sending: one pure file for each provider's outgoing side, ending in its `SENDING` record.

Rule: One pure file per provider, ending in its `SENDING` record.
Imports: `core`, `errors`.
"""

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType

from mailonce.core.events.event import Event
from mailonce.core.sends import correlate
from mailonce.core.sends.sending import Sending

# Imported when a sender of it is first used: start-up stays quick.
BUILTIN: Mapping[str, str] = MappingProxyType(
    {
        name: f"{__name__}.{name}"
        for name in (
            "brevo", "emailit", "mailersend", "mailgun", "mailjet", "mailtrap", "mandrill",
            "postal", "postmark", "resend", "scaleway", "sendgrid", "ses", "smtp", "smtp2go",
            "sparkpost",
        )
    }
)  # fmt: skip

# Providers whose events come by another way.
FAMILIES: Mapping[str, str] = MappingProxyType({"eventbridge": "ses"})


def find(name: str) -> Sending | None:
    """Give the outgoing side of a provider, or None where it has none."""
    path = BUILTIN.get(name)
    return None if path is None else _load(path)


@cache
def correlation_of(provider: str) -> Callable[[Event], str | None]:
    """Give what finds our id of a send in the events of a provider.

    A mail that left by one provider may be reported by another: what a relay over SMTP sends, or
    what somebody else's service forwards. So every provider is looked at, also one by which
    nothing can be sent.
    """
    sending = find(FAMILIES.get(provider, provider))
    return correlate.uuid_of if sending is None else sending.correlation_of


def names() -> list[str]:
    """List all providers that can send, sorted."""
    return sorted(BUILTIN)


@cache
def _load(path: str) -> Sending:
    sending = import_module(path).SENDING
    assert isinstance(sending, Sending), f"{path}.SENDING is not a Sending"
    return sending
