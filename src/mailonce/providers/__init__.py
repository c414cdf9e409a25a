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
        name: f"{__name__}.ses.{name}" if name == "eventbridge" else f"{__name__}.{name}"
        for name in (
            "brevo", "cloudevents", "cloudflare", "customerio", "elasticemail", "emailit",
            "eventbridge", "hmac", "loops", "mailersend", "mailgun", "mailhook", "mailjet",
            "mailonce", "mailtrap", "mailwebhook", "mandrill", "postal", "postmark", "resend",
            "scaleway", "sendgrid", "ses", "sesmetric", "smtp2go", "sparkpost", "standardwebhooks",
            "unisendergo",
        )
    }
)  # fmt: skip

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
