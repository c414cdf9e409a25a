"""Who speaks to us: one file per provider, each ending in its `PROVIDER` record."""

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

from mailonce.core.provider import Provider

# A provider's module is imported when a source of it is first used: start-up stays quick.
BUILTIN: Mapping[str, str] = MappingProxyType(
    {
        "mailgun": "mailonce.providers.mailgun",
        "postmark": "mailonce.providers.postmark",
        "sendgrid": "mailonce.providers.sendgrid",
        "sesmetric": "mailonce.providers.sesmetric",
    }
)


def find(name: str) -> Provider | None:
    """Give the provider of that name, or None."""
    path = BUILTIN.get(name)
    if path is None:
        return None
    provider = import_module(path).PROVIDER
    assert isinstance(provider, Provider), f"{path}.PROVIDER is not a Provider"
    return provider


def names() -> list[str]:
    """List all providers, sorted."""
    return sorted(BUILTIN)
