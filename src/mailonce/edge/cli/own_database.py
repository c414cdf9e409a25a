"""The database that a command opens by itself, where no server runs: taken as it stands.

Only a server brings the settings file into it, or migrates its tables.
"""

from mailonce.errors import ConfigError
from mailonce.settings import Settings


async def has_database(settings: Settings, *, creates: bool) -> bool:
    """Say whether there is a database to work on; without one, only who `creates` it goes on.

    Raises: ConfigError where there is none, or its tables are those of another version.
    """
    # Only a command that finds no server pays for importing it.
    from mailonce.views.doctor import has_tables  # noqa: PLC0415

    place = place_of(settings)
    if await has_tables(settings.database_url, place):
        return True
    if creates:
        return False
    file = settings.sqlite_file
    is_missing = file is not None and not file.exists()
    what = f"there is no database {place}" if is_missing else f"the database {place} has no tables"
    raise ConfigError(
        f"{what}; run `mailonce serve` first, or say with --data-dir, --config or --url where "
        "your server is"
    )


def place_of(settings: Settings) -> str:
    """Name the database as its owner knows it, without a password."""
    file = settings.sqlite_file
    return repr(settings.database_place if file is None else str(file))
