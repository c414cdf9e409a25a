"""Fakes of providers' APIs, for tests of whatever sends mail: real HTTP and SMTP on loopback.

A fake takes mail as its provider does, keeps it, and can be told to fail as providers do:

    async with make_fake("sendgrid") as fake:
        fake.script(FakeAct.ACCEPT_AND_HANG)        # it has the mail; the caller hears nothing
        ...                                         # a sender with fake.sender_settings() sends
        assert len(fake.messages) == 1
        posts = fake.webhooks(now_s=now)            # signed, with what the mail was sent with

Rule: A fake knows the provider's documents, not our own code.
Imports: `core`, `errors`, `testing`.
"""

from importlib import import_module
from pkgutil import iter_modules

from mailonce.errors import ConfigError
from mailonce.testing.fakes.fake import Fake
from mailonce.testing.fakes.records import FakeAct, FakeCall, FakeMail, FakeMessage, FakeStep
from mailonce.testing.fakes.smtp_server import FakeSmtpServer, SmtpAct, SmtpStep

__all__ = [
    "Fake",
    "FakeAct",
    "FakeCall",
    "FakeMail",
    "FakeMessage",
    "FakeSmtpServer",
    "FakeStep",
    "SmtpAct",
    "SmtpStep",
    "make_fake",
    "names",
]

# What the fakes share.
_PARTS = frozenset({"fake", "forms", "http_server", "reading", "records", "smtp_server"})


def names() -> list[str]:
    """List the providers that have a fake of their HTTP API, sorted."""
    return sorted({module.name for module in iter_modules(__path__)} - _PARTS)


def make_fake(name: str, *, seed: str | None = None, port: int = 0) -> Fake:
    """Make the fake of that provider; its webhooks are signed with keys of that seed.

    Raises: ConfigError where there is none.
    """
    if name not in names():
        raise ConfigError(f"there is no fake of {name!r}; choose one of {', '.join(names())}")
    made: type[Fake] = import_module(f"{__name__}.{name}").FAKE
    assert issubclass(made, Fake), f"FAKE of {name} is no Fake"
    return made(seed=seed, port=port)
