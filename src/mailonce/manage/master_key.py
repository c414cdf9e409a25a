"""The master key, which encrypts stored secrets: given by the operator, else made in a file."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from mailonce.clock import Clock
from mailonce.core.signatures.sealing import UNREADABLE, Sealer
from mailonce.errors import ConfigError
from mailonce.manage.records import several
from mailonce.settings import Settings
from mailonce.store.configuration import routes, senders, sources
from mailonce.store.dialects.contract import Database
from mailonce.telemetry import MASTER_KEY_MADE, log

MASTER_KEY_ADVICE = (
    "every process on this database needs it to read the stored secrets: "
    "set MAILONCE_MASTER_KEY to its content, and keep a copy of it"
)

LOST_KEY_ADVICE = (
    "if it is lost, set a new one, start once with `mailonce serve --lost-master-key`, and enter "
    "the secrets again"
)


async def prepare_master_key(database: Database, settings: Settings, clock: Clock) -> None:
    """Make the master key where there is none yet, but not beside what another one has sealed.

    Raises: ConfigError where stored secrets need the key that is missing.
    """
    if has_master_key(settings):
        return
    # Nothing was ever sealed with this one.
    if await has_secrets(database, Sealer([clock.chance(32).hex()])):
        raise ConfigError(f"{UNREADABLE}; {LOST_KEY_ADVICE}")
    master_keys_of(settings, clock)


async def has_secrets(database: Database, sealer: Sealer) -> bool:
    """Say whether there is a source, route or sender: each has secrets that are sealed."""
    records = await database.read(
        lambda tx: [
            *sources.list_all(tx, sealer),
            *routes.list_all(tx, sealer),
            *senders.list_all(tx, sealer),
        ]
    )
    return bool(records)


def has_master_key(settings: Settings) -> bool:
    """Say whether a master key is given, or was made before."""
    return bool(several(settings.master_key)) or settings.master_key_file.exists()


def with_scratch_key(settings: Settings, clock: Clock | None = None) -> Settings:
    """Give the settings a key that is kept nowhere, where they have none: for looking alone."""
    if has_master_key(settings):
        return settings
    return settings.model_copy(update={"master_key": (clock or Clock()).chance(32).hex()})


def master_keys_of(settings: Settings, clock: Clock) -> list[str]:
    """Take the master keys from the settings, else from a file that only we may read.

    Raises: ConfigError where that file has none.
    """
    given = several(settings.master_key)
    if given:
        return list(given)
    path = settings.master_key_file
    if not path.exists():
        _make(path, clock.chance(32).hex())
        if settings.sqlite_file is None:
            log.warning(MASTER_KEY_MADE, path=str(path.absolute()), advice=MASTER_KEY_ADVICE)
    return _read(path)


def check_master_key(settings: Settings) -> None:
    """Check that the master key can be read, where there is one; none is made.

    Raises: ConfigError, as `master_keys_of` does.
    """
    if not several(settings.master_key) and settings.master_key_file.exists():
        _read(settings.master_key_file)


def _make(path: Path, key: str) -> None:
    """Make the file at once, where there are links: nobody ever finds one without its key."""
    handle, name = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
    whole = Path(name)
    try:
        _write(handle, key)
        try:
            os.link(whole, path)
        except FileExistsError:
            # Another process was first, and its key counts.
            return
        except OSError:
            # This file system has no links. A rename would put our key in the place of one that
            # another process encrypts with already.
            with suppress(FileExistsError):
                _write_new(path, key)
        _sync_folder(path.parent)
    finally:
        whole.unlink(missing_ok=True)


def _write_new(path: Path, key: str) -> None:
    """Make the file, and then write it: who reads it in between is refused, and starts again.

    Raises: FileExistsError where it is there.
    """
    _write(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), key)


def _write(handle: int, key: str) -> None:
    with os.fdopen(handle, "w") as file:
        file.write(key + "\n")
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """See that a file's name is durable before anything is encrypted with what is in it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _read(path: Path) -> list[str]:
    try:
        keys = path.read_text().split()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise ConfigError(
            f"the master key in {str(path)!r} cannot be read ({why}); restore the file, or set "
            "MAILONCE_MASTER_KEY"
        ) from error
    if not keys:
        raise ConfigError(
            f"the file {str(path)!r} has no master key; restore it, or, where no secrets were "
            "stored yet, remove it"
        )
    return keys
