"""How simulated providers post mail: one module for each, ending in its `HOOK`.

>>> from mailonce.testing import make_simulator
>>> simulator = make_simulator("sendgrid", "a seed")
>>> mail, people = b"Subject: Hi", {"sender": "bob@example.org", "recipients": ["in@example.net"]}
>>> post = mail_post(simulator, mail, **people, now_s=1767225600)
>>> post.headers["Content-Type"].startswith("multipart/form-data")
True

A retry is the same post again or, where the provider writes its posts anew, `mail_post` again: the
mail's own id is the same, boundaries, tokens and times are not.

Rule: A hook knows the provider's documents, not our parser.
Imports: `core`, `errors`, `testing`.
"""

from collections.abc import Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from mailonce.errors import ConfigError
from mailonce.testing.mail import SimulatedHook, SimulatedMail
from mailonce.testing.simulator import Post, Simulator


def names() -> list[str]:
    """List the simulators that can post mail, sorted."""
    return sorted(module.name for module in iter_modules(__path__))


def hook_of(simulator: Simulator) -> SimulatedHook:
    """Find how a simulator posts mail.

    Raises: ConfigError where it cannot.
    """
    if simulator.name not in names():
        known = ", ".join(names())
        raise ConfigError(f"{simulator.name} hands over no mail; choose one of {known}")
    hook: SimulatedHook = import_module(f"{__name__}.{simulator.name}").HOOK
    return hook


def mode_of(simulator: Simulator, mode: str | None = None) -> str:
    """Give the mode in which a simulator posts mail: the first that it has, or the one asked for.

    Raises: ConfigError where it hands over no mail, or not in that mode.
    """
    modes = hook_of(simulator).modes
    chosen = modes[0] if mode is None else mode
    if chosen not in modes:
        known = ", ".join(modes)
        raise ConfigError(f"{simulator.name} posts no mail as {chosen!r}; choose one of {known}")
    return chosen


def mail_settings(simulator: Simulator) -> dict[str, Any]:
    """Give the settings of a source that takes mail from this simulator."""
    settings, more = simulator.settings(), hook_of(simulator).settings(simulator)
    options = {**settings.get("options", {}), **more.get("options", {})}
    return {**settings, **more, **({"options": options} if options else {})}


def mail_posts(
    simulator: Simulator,
    mail: bytes,
    *,
    sender: str,
    recipients: Sequence[str],
    now_s: int,
    mode: str | None = None,
) -> list[Post]:
    """Post a mail, in the first of the provider's modes unless told which.

    Most providers make one post for all recipients, some one for each.
    Raises: ConfigError where the simulator hands over no mail, or not in that mode.
    """
    hook, chosen = hook_of(simulator), mode_of(simulator, mode)
    return hook.write(simulator, SimulatedMail(mail, sender, tuple(recipients)), chosen, now_s)


def mail_post(
    simulator: Simulator,
    mail: bytes,
    *,
    sender: str,
    recipients: Sequence[str],
    now_s: int,
    mode: str | None = None,
) -> Post:
    """Post a mail that makes one post, as one for a single recipient always does."""
    (post,) = mail_posts(
        simulator, mail, sender=sender, recipients=recipients, now_s=now_s, mode=mode
    )
    return post
