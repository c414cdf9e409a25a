"""One simulator per provider: says what happened in its words, and signs as it does.

A module here plays the provider whose name it has, and ends in its `SIMULATOR`; a second form of
one provider is a module of its own (`sesmetric_body` is `sesmetric-body`). Nothing else need know.

Rule: A simulator knows the provider's documents, not our parser.
Imports: `core`, `errors`, `testing`.
"""

from collections.abc import Iterable
from importlib import import_module
from pkgutil import iter_modules

from mailonce.core.nearest_name import did_you_mean
from mailonce.errors import ConfigError
from mailonce.testing.simulator import Simulator


def names() -> list[str]:
    """List all simulators, sorted."""
    return sorted(module.name.replace("_", "-") for module in iter_modules(__path__))


def make_simulator(name: str, seed: str | None = None, *, to: str | None = None) -> Simulator:
    """Make the simulator of that name, with keys of that seed, or fresh ones.

    Raises: ConfigError where there is none.
    """
    if name not in names():
        listed = f"choose one of {', '.join(names())}"
        advice = did_you_mean(name, names(), otherwise=listed)
        raise ConfigError(f"there is no simulator {name!r}; {advice}")
    made: type[Simulator] = import_module(f"{__name__}.{name.replace('-', '_')}").SIMULATOR
    assert issubclass(made, Simulator), f"SIMULATOR of {name} is no Simulator"
    return made(seed) if to is None else made(seed, to=to)


def make_simulators(
    wanted: Iterable[str] | None = None, *, seed: str | None = None
) -> dict[str, Simulator]:
    """Make simulators by name; all of them unless told which."""
    return {name: make_simulator(name, seed) for name in (names() if wanted is None else wanted)}
