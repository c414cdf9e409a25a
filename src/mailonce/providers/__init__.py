"""Providers: one pure file for each, ending in its `PROVIDER` record.

Rule: One pure file per provider, ending in its `PROVIDER` record.
Imports: `core`, `errors`.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType

from mailonce.core.arrivals.provider import Provider
from mailonce.core.arrivals.source import Source
from mailonce.errors import ConfigError

# A provider's module is imported when a source of it is first used: start-up stays quick.
BUILTIN: Mapping[str, str] = MappingProxyType(
    {
        "brevo": "mailonce.providers.brevo",
        "cloudevents": "mailonce.providers.cloudevents",
        "customerio": "mailonce.providers.customerio",
        "elasticemail": "mailonce.providers.elasticemail",
        "emailit": "mailonce.providers.emailit",
        "eventbridge": "mailonce.providers.ses.eventbridge",
        "hmac": "mailonce.providers.hmac",
        "loops": "mailonce.providers.loops",
        "mailersend": "mailonce.providers.mailersend",
        "mailgun": "mailonce.providers.mailgun",
        "mailhook": "mailonce.providers.mailhook",
        "mailjet": "mailonce.providers.mailjet",
        "mailonce": "mailonce.providers.mailonce",
        "mailtrap": "mailonce.providers.mailtrap",
        "mailwebhook": "mailonce.providers.mailwebhook",
        "mandrill": "mailonce.providers.mandrill",
        "postal": "mailonce.providers.postal",
        "postmark": "mailonce.providers.postmark",
        "resend": "mailonce.providers.resend",
        "scaleway": "mailonce.providers.scaleway",
        "sendgrid": "mailonce.providers.sendgrid",
        "ses": "mailonce.providers.ses",
        "sesmetric": "mailonce.providers.sesmetric",
        "smtp2go": "mailonce.providers.smtp2go",
        "sparkpost": "mailonce.providers.sparkpost",
        "standardwebhooks": "mailonce.providers.standardwebhooks",
        "unisendergo": "mailonce.providers.unisendergo",
    }
)

# Other packages add providers here: `acme = "acme_mailonce:PROVIDER"`.
GROUP = "mailonce.providers"


def find(name: str) -> Provider | None:
    """Give the provider of that name, or None; ours win over an installed package's.

    Raises: ConfigError where an installed package promises a provider and does not give one.
    """
    path = BUILTIN.get(name)
    if path is None:
        return _find_installed(name)
    return _find_builtin(path)


def names() -> list[str]:
    """List all providers, sorted."""
    return sorted({*BUILTIN, *_installed()})


def account_of(source: Source) -> str:
    """Name the account that a source's keys, facts and events belong to."""
    provider = find(source.provider)
    family = None if provider is None else provider.family
    return f"{family or source.provider}/{source.account}"


@cache
def _find_builtin(path: str) -> Provider:
    provider = import_module(path).PROVIDER
    assert isinstance(provider, Provider), f"{path}.PROVIDER is not a Provider"
    return provider


def _find_installed(name: str) -> Provider | None:
    entry = _installed().get(name)
    if entry is None:
        return None
    try:
        provider = entry.load()
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"provider {name!r} cannot be loaded from {entry.value}: {error}; repair that package"
        ) from error
    if not isinstance(provider, Provider):
        raise ConfigError(f"{entry.value} is not a mailonce Provider; repair that package")
    return provider


@cache
def _installed() -> Mapping[str, EntryPoint]:
    """Packages do not come and go while we run, and looking for them reads the disk."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}
