"""A command beside a server: what differs is said, and nothing else."""

from mailonce.core.health.checkup import Level
from mailonce.core.health.running_server import ServerIdentity, of_running

SERVER = ServerIdentity(database="postgresql://db/mailonce", master_keys=["new", "old"])


def faults(**ours: object) -> dict[str, Level]:
    fields: dict[str, object] = {"database": SERVER.database, "master_keys": ["new", "old"]}
    identity = ServerIdentity(**(fields | ours))  # type: ignore[arg-type]
    return {one.check: one.level for one in of_running(SERVER, identity) if one.check != "server"}


def test_the_same_settings_are_well() -> None:
    assert faults() == {}
    assert faults(master_keys=["newer", "new"]) == {}, "a change of keys under way"
    assert faults(master_keys=[]) == {}, "a command needs no key of its own"


def test_another_database_that_was_named_is_a_fault_and_a_default_a_warning() -> None:
    other = "sqlite:///mailonce.db"

    assert faults(database=other) == {"server's database": Level.FAIL}
    assert faults(database=other, names_database=False) == {"server's database": Level.WARN}


def test_a_key_that_does_not_open_what_the_server_encrypts_is_a_fault() -> None:
    assert faults(master_keys=["old"]) == {"server's master key": Level.FAIL}
    assert faults(master_keys=["old"], gives_keys=False) == {"server's master key": Level.WARN}
